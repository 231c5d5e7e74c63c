"""The commands put together, and what happens when they fail."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from functools import wraps
from typing import Annotated, Any

import typer

from cornerstep.cli import inspecting, training, using
from cornerstep.cli.screen import INTERRUPTED, WRONG, UserError, put, say

app = typer.Typer(
    name="cornerstep",
    help="Large-margin models with a certificate: train, use, inspect, certify.",
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


class StoppedError(Exception):
    """Ctrl-C where there is nothing to keep: the option parser would swallow the interrupt."""


def _command(function: Callable[..., None]) -> None:
    @wraps(function)
    def wrapped(*arguments: Any, **options: Any) -> None:
        try:
            function(*arguments, **options)
        except KeyboardInterrupt as stop:
            raise StoppedError(str(stop)) from None

    app.command()(wrapped)


for _function in (
    training.fit, training.path, using.predict, using.evaluate, inspecting.inspect,
    inspecting.certify, using.convert, using.export, inspecting.demo,
):  # fmt: skip
    _command(_function)


@app.callback(invoke_without_command=True)
def start(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Show the version.")] = False,
) -> None:
    """Large-margin models with a certificate: train, use, inspect, certify.

    Example: cornerstep fit digits.csv --target digit -o digits.cornerstep --report report.html
    """
    if version:
        from cornerstep import __version__

        put(__version__)
    elif context.invoked_subcommand is None:
        put(context.get_help())


def main(arguments: list[str] | None = None) -> None:
    """Run a command and leave with its exit code."""
    sys.exit(run(sys.argv[1:] if arguments is None else arguments))


def run(arguments: list[str]) -> int:
    """Run a command; the exit code.  What the user can put right is said in one line on stderr."""
    from sklearn.exceptions import ConvergenceWarning

    warnings.simplefilter("ignore", ConvergenceWarning)  # the table says how a run ended
    try:
        code: Any = app(arguments, standalone_mode=False, prog_name="cornerstep")
        sys.stdout.flush()
    except UserError as problem:
        return _wrong(str(problem))
    except (StoppedError, KeyboardInterrupt) as stop:
        say(f"interrupted{f': {stop}' if str(stop) else ''}; nothing was saved")
        return INTERRUPTED
    except BrokenPipeError:  # the reader of a pipe has left
        sys.stderr.close()
        return 0
    except MemoryError:
        return _wrong("the data does not fit in memory")
    except Exception as problem:
        if hasattr(problem, "format_message"):  # a wrong option or a missing argument
            return _wrong(f"{problem.format_message()} (see cornerstep COMMAND --help)")
        if isinstance(problem, ValueError | TypeError):  # the library's own words
            return _wrong(str(problem))
        raise
    return code if isinstance(code, int) else 0


def _wrong(text: str) -> int:
    say("error: " + " ".join(text.split()))
    return WRONG
