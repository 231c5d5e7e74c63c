"""The commands put together, and what happens when they fail."""

from __future__ import annotations

import os
import sys
import traceback
import warnings
from collections.abc import Callable
from functools import wraps
from typing import Annotated, Any

import typer

from cornerstep.cli import inspecting, preparing, probing, tagging, training, using
from cornerstep.cli.options import flag
from cornerstep.cli.screen import (
    CRASHED,
    INTERRUPTED,
    SOLVED,
    WRONG,
    UserError,
    give_up,
    put,
    say,
)
from cornerstep.core.output import WriteError

app = typer.Typer(
    name="cornerstep",
    help="Large-margin models with a certificate: train, use, inspect, certify.",
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


class EndedError(Exception):
    """A command that ended by its cause, which the option parser would take for its own affair."""


def _command(function: Callable[..., None], name: str | None = None) -> None:
    @wraps(function)
    def wrapped(*arguments: Any, **options: Any) -> None:
        try:
            function(*arguments, **options)
        except (KeyboardInterrupt, EOFError, OSError) as problem:
            raise EndedError from problem

    app.command(name)(wrapped)


for _function in (
    training.fit, training.path, tagging.tag, probing.probe, using.predict, using.evaluate,
    inspecting.inspect, inspecting.certify, using.convert, using.export, inspecting.demo,
):  # fmt: skip
    _command(_function)
_command(preparing.compile_kernels, "compile")


@app.callback(invoke_without_command=True)
def start(
    context: typer.Context,
    version: Annotated[bool, flag("--version", help="Show the version.")] = False,
) -> None:
    """Large-margin models with a certificate: train, use, inspect, certify.

    Example: cornerstep fit digits.csv --target digit -o digits.cornerstep --report report.html
    """
    if version:
        from cornerstep.core.version import __version__

        put(__version__)
    elif context.invoked_subcommand is None:
        put(context.get_help())


def run(arguments: list[str]) -> int:
    """Run a command; the exit code.  What the user can put right is said in one line on stderr."""
    from sklearn.exceptions import ConvergenceWarning

    warnings.simplefilter("ignore", ConvergenceWarning)  # the table says how a run ended
    code = _called(arguments)
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        give_up(sys.stdout)
    except OSError as problem:
        code = _failed(problem)
    try:
        sys.stderr.flush()
    except OSError:
        give_up(sys.stderr)
    return code


def _called(arguments: list[str]) -> int:
    try:
        code: Any = app(arguments, standalone_mode=False, prog_name="cornerstep")
    except SystemExit:  # the option parser's way when nobody reads its help
        return SOLVED
    except EndedError as end:
        return _failed(end.__cause__ or end)
    except Exception as problem:
        return _failed(problem)
    return code if isinstance(code, int) else SOLVED


def _failed(problem: BaseException) -> int:
    """Say what went wrong; the exit code."""
    if isinstance(problem, KeyboardInterrupt):
        say(f"interrupted{f': {problem}' if str(problem) else ''}; nothing unfinished was saved")
        return INTERRUPTED
    if isinstance(problem, BrokenPipeError):  # the reader of a pipe has left
        give_up(sys.stdout)
        return SOLVED
    if isinstance(problem, OSError):
        return _wrong(_of_files(problem))
    if isinstance(problem, MemoryError):
        return _wrong("the data does not fit in memory")
    if hasattr(problem, "format_message"):  # a wrong option or a missing argument
        return _wrong(f"{problem.format_message()} (see cornerstep COMMAND --help)")
    if isinstance(problem, UserError | ValueError | TypeError):  # the library's own words
        return _wrong(str(problem))
    traceback.print_exception(problem)
    say("error: this is a defect of cornerstep, not of its input; please report the lines above")
    return CRASHED


def _of_files(problem: OSError) -> str:
    """What is wrong with a file; one without a name is stdout."""
    why = problem.strerror or str(problem)
    if problem.filename is None:
        give_up(sys.stdout)
        return f"cannot write to stdout: {why}"
    name = os.fsdecode(problem.filename)
    return f"cannot write {name}: {why}" if isinstance(problem, WriteError) else f"{name}: {why}"


def _wrong(text: str) -> int:
    say("error: " + " ".join(text.split()))
    return WRONG
