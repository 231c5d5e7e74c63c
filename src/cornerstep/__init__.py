"""cornerstep: large-margin learning by Frank-Wolfe, with a certificate."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from cornerstep.optimiser import Result, Status, minimize
from cornerstep.saddle import extragradient

if TYPE_CHECKING:
    from cornerstep.certificates import Certificate, certificate
    from cornerstep.estimators.boosting import SoftMarginBoostingClassifier
    from cornerstep.estimators.multiclass import MulticlassSVC
    from cornerstep.estimators.path import RegularizationPath, regularization_path
    from cornerstep.estimators.reduced_hull import ReducedHullSVC
    from cornerstep.estimators.structured import StructuredSVC
    from cornerstep.onnx_export import to_onnx
    from cornerstep.persistence import ModelFileError, load, read_manifest, save
    from cornerstep.reporting import report
    from cornerstep.verification import Verification, certify

__version__ = "0.1.0"

__all__ = [
    "Certificate",
    "ModelFileError",
    "MulticlassSVC",
    "ReducedHullSVC",
    "RegularizationPath",
    "Result",
    "SoftMarginBoostingClassifier",
    "Status",
    "StructuredSVC",
    "Verification",
    "__version__",
    "certificate",
    "certify",
    "extragradient",
    "load",
    "minimize",
    "read_manifest",
    "regularization_path",
    "report",
    "save",
    "to_onnx",
]

# Each estimator brings scikit-learn and its own compiled kernels along: imported when asked for.
_LAZY = {
    "Certificate": "certificates",
    "ModelFileError": "persistence",
    "MulticlassSVC": "estimators.multiclass",
    "ReducedHullSVC": "estimators.reduced_hull",
    "RegularizationPath": "estimators.path",
    "SoftMarginBoostingClassifier": "estimators.boosting",
    "StructuredSVC": "estimators.structured",
    "Verification": "verification",
    "certificate": "certificates",
    "certify": "verification",
    "load": "persistence",
    "read_manifest": "persistence",
    "regularization_path": "estimators.path",
    "report": "reporting",
    "save": "persistence",
    "to_onnx": "onnx_export",
}


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        return getattr(import_module(f"cornerstep.{_LAZY[name]}"), name)
    raise AttributeError(f"module 'cornerstep' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
