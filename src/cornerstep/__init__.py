"""cornerstep: large-margin learning by Frank-Wolfe, with a certificate."""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from cornerstep.optimiser import Result, Status, minimize
from cornerstep.saddle import extragradient

if TYPE_CHECKING:
    from cornerstep.estimators import (
        MulticlassSVC,
        RegularizationPath,
        StructuredSVC,
        regularization_path,
    )

__version__ = version("cornerstep")

__all__ = [
    "MulticlassSVC",
    "RegularizationPath",
    "Result",
    "Status",
    "StructuredSVC",
    "__version__",
    "extragradient",
    "minimize",
    "regularization_path",
]

# Estimators bring scikit-learn and compiled kernels along: imported when first asked for.
_LAZY = ("MulticlassSVC", "RegularizationPath", "StructuredSVC", "regularization_path")


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        return getattr(import_module("cornerstep.estimators"), name)
    raise AttributeError(f"module 'cornerstep' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
