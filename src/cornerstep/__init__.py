"""cornerstep: large-margin learning by Frank-Wolfe, with a certificate."""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from cornerstep.optimiser import Result, Status, minimize
from cornerstep.saddle import extragradient

if TYPE_CHECKING:
    from cornerstep.estimators.boosting import SoftMarginBoostingClassifier
    from cornerstep.estimators.multiclass import MulticlassSVC
    from cornerstep.estimators.path import RegularizationPath, regularization_path
    from cornerstep.estimators.reduced_hull import ReducedHullSVC
    from cornerstep.estimators.structured import StructuredSVC

__version__ = version("cornerstep")

__all__ = [
    "MulticlassSVC",
    "ReducedHullSVC",
    "RegularizationPath",
    "Result",
    "SoftMarginBoostingClassifier",
    "Status",
    "StructuredSVC",
    "__version__",
    "extragradient",
    "minimize",
    "regularization_path",
]

# Each estimator brings scikit-learn and its own compiled kernels along: imported when asked for.
_LAZY = {
    "MulticlassSVC": "multiclass",
    "ReducedHullSVC": "reduced_hull",
    "RegularizationPath": "path",
    "SoftMarginBoostingClassifier": "boosting",
    "StructuredSVC": "structured",
    "regularization_path": "path",
}


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        return getattr(import_module(f"cornerstep.estimators.{_LAZY[name]}"), name)
    raise AttributeError(f"module 'cornerstep' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
