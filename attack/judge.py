"""One case: what the library was asked, what must hold of its answer, and what did not."""

from __future__ import annotations

import linecache
import os
import signal
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

LIMIT = 20.0  # CPU seconds of a case; a run that takes longer does not end
SLOW = "the time limit is kept"
_TOLD = (  # warnings that say something true
    "kernel='sigmoid' is not positive semidefinite",
    "is solved, and answers the same for all examples",
    "is solved, and the best ensemble",
    "the run starts from its projection",
)


class RefusedError(Exception):
    """The library refused the case in one clear line, or broke: there is nothing more to judge."""


class Late(BaseException):
    """The case used up its time; not an Exception, so that nobody takes it for an error."""


@dataclass
class Verdict:
    """How one case went."""

    seed: int
    violations: list[str] = field(default_factory=list)
    skipped: str = ""
    seconds: float = 0.0
    late: bool = False


class Judge:
    """Collects the rules that a case breaks."""

    def __init__(self) -> None:
        self.violations: list[str] = []
        self.context: list[str] = []
        self._stack = ExitStack()
        self._folder: Path | None = None

    def says(self, *words: Any) -> None:
        """Add what the case is about to what a violation prints."""
        self.context.append(" ".join(str(word) for word in words))

    def violated(self, rule: str) -> None:
        """A rule is broken."""
        self.violations.append(" | ".join([rule, *self.context]))

    def that(self, holds: Any, rule: str) -> bool:
        """Whether a rule holds."""
        if not holds:
            self.violated(rule)
        return bool(holds)

    def at_most(self, small: Any, large: Any, rule: str, slack: Any = 0.0) -> bool:
        """Whether ``small <= large + slack``; NaN is not."""
        if small <= large + slack:
            return True
        self.violated(f"{rule}: {float(small):.17g} > {float(large):.17g} (+ {float(slack):.2g})")
        return False

    def folder(self) -> Path:
        """A temporary folder of this case."""
        if self._folder is None:
            self._folder = Path(self._stack.enter_context(tempfile.TemporaryDirectory()))
        return self._folder

    def close(self) -> None:
        """Remove what the case left behind."""
        self._stack.close()

    def call(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """What the function answers.

        Errors other than a ValueError that somebody raised on purpose break a rule, and so do
        warnings other than those of convergence.  Either kind of error ends the case.
        """
        with np.errstate(all="warn", under="ignore"), warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            try:
                return function(*args, **kwargs)
            except RefusedError:
                raise
            except (ValueError, TypeError) as error:
                if not is_clear(error):
                    self.violated(f"unclear error: {_said(error)}")
                raise RefusedError(str(error)) from error
            except Exception as error:
                self.violated(f"raw error: {_said(error)}")
                raise RefusedError(str(error)) from error
            finally:
                self._listen(said)

    def refuses(self, rule: str, function: Callable[..., Any], *args: Any) -> Any:
        """The function must refuse with a clear ValueError; otherwise its answer is returned."""
        try:
            answer = self.call(function, *args)
        except RefusedError:
            return None
        self.violated(f"must be refused: {rule}")
        return answer

    def _listen(self, said: list[Any]) -> None:
        for warning in said:
            text = str(warning.message)
            told = warning.category.__name__ == "ConvergenceWarning"
            if not (told or any(words in text for words in _TOLD)):
                where = f"{Path(warning.filename).name}:{warning.lineno}"
                self.violated(f"warning leaks: {warning.category.__name__} {text!r:.90} at {where}")


def is_clear(error: BaseException) -> bool:
    """Whether somebody raised the error on purpose, in the library or scikit-learn, in a line."""
    frame = traceback.extract_tb(error.__traceback__)[-1]
    line = linecache.getline(frame.filename, frame.lineno or 0).strip()
    ours = f"{os.sep}cornerstep{os.sep}" in frame.filename
    theirs = f"{os.sep}sklearn{os.sep}" in frame.filename
    text = str(error)
    return line.startswith("raise") and bool(text) and (theirs or (ours and "\n" not in text))


def _said(error: BaseException) -> str:
    frame = traceback.extract_tb(error.__traceback__)[-1]
    text = " ".join(str(error).split())
    return f"{type(error).__name__} {text!r:.120} at {Path(frame.filename).name}:{frame.lineno}"


def _alarm(number: int, frame: Any) -> None:
    raise Late


def judge_case(
    attack: Callable[[np.random.Generator, Judge], None], seed: int, limit: float = LIMIT
) -> Verdict:
    """Make the case of a seed and judge it, with at most ``limit`` seconds of CPU time."""
    judge, verdict = Judge(), Verdict(seed)
    previous = signal.signal(signal.SIGPROF, _alarm)
    begun = time.perf_counter()
    signal.setitimer(signal.ITIMER_PROF, limit)
    try:
        with np.errstate(all="ignore"):  # of the evaluators; calls of the library listen
            attack(np.random.default_rng(seed), judge)
    except RefusedError as why:
        verdict.skipped = str(why) or "refused"
    except Exception as error:
        judge.violated(f"the attack itself broke: {_said(error)}")
    except Late:
        verdict.late = True
        judge.violated(f"does not end within {limit:g} seconds of CPU time")
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, previous)
        judge.close()
    verdict.seconds = time.perf_counter() - begun
    verdict.violations = judge.violations
    return verdict
