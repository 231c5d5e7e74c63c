"""cornerstep: large-margin learning by Frank-Wolfe, with a certificate."""

from importlib.metadata import version

from cornerstep.optimiser import Result, Status, minimize

__version__ = version("cornerstep")

__all__ = ["Result", "Status", "__version__", "minimize"]
