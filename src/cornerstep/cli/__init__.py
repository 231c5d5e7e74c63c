"""The ``cornerstep`` command: train, use, inspect and certify models from a terminal.

Exit codes: 0 done; 1 a certificate does not hold; 2 wrong options, files or data; 3 a limit came
before the tolerance (the model is saved); 70 a defect of the program; 130 interrupted (the best
model so far is saved).
"""

from cornerstep.cli.app import main

__all__ = ["main"]
