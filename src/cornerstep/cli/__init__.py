"""The ``cornerstep`` command: train, use, inspect and certify models from a terminal.

Exit codes: 0 done; 1 a certificate does not hold; 2 wrong options, files or data; 3 a limit came
before the tolerance (the model is saved); 70 a defect of the program; 130 interrupted (the best
model so far is saved).
"""

from __future__ import annotations

import sys

from cornerstep.cli.screen import INTERRUPTED, provide_streams, say

__all__ = ["main"]


def main(arguments: list[str] | None = None) -> None:
    """Run a command and leave with its exit code."""
    provide_streams()
    try:
        from cornerstep.cli.app import run  # seconds of imports, where Ctrl-C ends it as elsewhere

        code = run(sys.argv[1:] if arguments is None else arguments)
    except KeyboardInterrupt:
        say("interrupted")
        code = INTERRUPTED
    sys.exit(code)
