"""Cases of a family in a process of their own, which may hang or die without the others."""

from __future__ import annotations

import multiprocessing
import re
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from attack.families import attack_of
from attack.judge import LIMIT, SLOW, Verdict, judge_case

_PATIENCE = 6  # times the limit of a case, on the clock: others may use the CPU too
_AGAIN = 3  # times the limit, at the second try
SEEDS = 10**6  # cases that one --seed may have


@dataclass
class Tally:
    """What a family found."""

    name: str
    cases: int = 0
    skips: int = 0
    seconds: float = 0.0
    broken: list[Verdict] = field(default_factory=list)
    reasons: Counter[str] = field(default_factory=Counter)

    def add(self, verdict: Verdict) -> None:
        """Count one case."""
        self.cases += 1
        if verdict.skipped:
            self.skips += 1
            self.reasons[re.sub(r"/\S+|[-+.e\d]*\d|\(.*?\)", "#", verdict.skipped)[:70]] += 1
        if verdict.violations:
            self.broken.append(verdict)


class Worker:
    """A process that judges cases, one after the other; a new one where it hung or died."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._start()

    def _start(self) -> None:
        context = multiprocessing.get_context("spawn")
        self._pipe, other = context.Pipe()
        self._process = context.Process(target=_serve, args=(self.name, other))
        self._process.start()
        other.close()

    def judge(self, seed: int) -> Verdict:
        """The case of a seed; one that took long is tried again: kernels may have been compiled.

        One that was cut short may have left a kernel half compiled: another process tries.
        """
        verdict = self._ask(seed, LIMIT)
        if verdict.late:
            self.close()
            self._start()
            return self._ask(seed, _AGAIN * LIMIT)
        slow = any(SLOW in violation for violation in verdict.violations)
        return self._ask(seed, LIMIT) if slow else verdict

    def _ask(self, seed: int, limit: float) -> Verdict:
        self._pipe.send((seed, limit))
        try:
            if self._pipe.poll(_PATIENCE * limit):
                verdict: Verdict = self._pipe.recv()
                return verdict
            how = f"hangs: no answer within {_PATIENCE * limit:g} seconds"
        except EOFError:
            self._process.join()
            how = f"the process died with exit code {self._process.exitcode}"
        self.close()
        self._start()
        return Verdict(seed, [how], late=how.startswith("hangs"))

    def close(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.join()
        self._pipe.close()


def _serve(name: str, pipe: Any) -> None:
    attack = attack_of(name)
    while True:
        try:
            seed, limit = pipe.recv()
        except EOFError:
            return
        pipe.send(judge_case(attack, seed, limit))


def run(
    name: str, seed: int, seconds: float, tell: Callable[[str, Verdict], None] | None = None
) -> Tally:
    """The cases ``seed * SEEDS, ...`` of a family for some time."""
    tally, worker = Tally(name), Worker(name)
    begun = time.perf_counter()
    try:
        while (spent := time.perf_counter() - begun) < seconds and tally.cases < SEEDS:
            verdict = worker.judge(seed * SEEDS + tally.cases)
            tally.add(verdict)
            if verdict.violations and tell is not None:
                tell(name, verdict)
    finally:
        worker.close()
    tally.seconds = spent
    return tally
