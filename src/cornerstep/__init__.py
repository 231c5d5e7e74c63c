"""cornerstep: large-margin learning by Frank-Wolfe, with a certificate."""

from importlib.metadata import version

from cornerstep.optimiser import Result, Status, minimize
from cornerstep.saddle import extragradient

__version__ = version("cornerstep")

__all__ = ["Result", "Status", "__version__", "extragradient", "minimize"]
