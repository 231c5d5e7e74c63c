"""cornerstep: large-margin learning by Frank-Wolfe, with a certificate."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from cornerstep.core.version import __version__

if TYPE_CHECKING:
    from cornerstep.boosting.estimator import SoftMarginBoostingClassifier
    from cornerstep.files.model_file import ModelFileError, load, read_manifest, save
    from cornerstep.files.onnx import to_onnx
    from cornerstep.kernel_svm.estimator import ReducedHullSVC
    from cornerstep.kernel_svm.one_class import OneClassHull
    from cornerstep.kernel_svm.regression import ReducedHullSVR
    from cornerstep.learning.certificates import Certificate, certificate
    from cornerstep.learning.path import RegularizationPath, regularization_path
    from cornerstep.learning.tables import table_pipeline
    from cornerstep.learning.verification import Verification, certify
    from cornerstep.multiclass.choice import ChoiceOfC, select_C
    from cornerstep.multiclass.estimator import MulticlassSVC
    from cornerstep.optimiser import Result, Status, minimize, minimize_many
    from cornerstep.optimiser.saddle import extragradient
    from cornerstep.reporting import report
    from cornerstep.structured.estimator import StructuredSVC
    from cornerstep.structured.tagger import SequenceTagger

__all__ = [
    "Certificate",
    "ChoiceOfC",
    "ModelFileError",
    "MulticlassSVC",
    "OneClassHull",
    "ReducedHullSVC",
    "ReducedHullSVR",
    "RegularizationPath",
    "Result",
    "SequenceTagger",
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
    "minimize_many",
    "read_manifest",
    "regularization_path",
    "report",
    "save",
    "select_C",
    "table_pipeline",
    "to_onnx",
]

# Each brings NumPy, SciPy, scikit-learn or compiled kernels of its own: imported when asked for.
_LAZY = {
    "Certificate": "learning.certificates",
    "ChoiceOfC": "multiclass.choice",
    "ModelFileError": "files.model_file",
    "MulticlassSVC": "multiclass.estimator",
    "OneClassHull": "kernel_svm.one_class",
    "ReducedHullSVC": "kernel_svm.estimator",
    "ReducedHullSVR": "kernel_svm.regression",
    "RegularizationPath": "learning.path",
    "Result": "optimiser",
    "SequenceTagger": "structured.tagger",
    "SoftMarginBoostingClassifier": "boosting.estimator",
    "Status": "optimiser",
    "StructuredSVC": "structured.estimator",
    "Verification": "learning.verification",
    "certificate": "learning.certificates",
    "certify": "learning.verification",
    "extragradient": "optimiser.saddle",
    "load": "files.model_file",
    "minimize": "optimiser",
    "minimize_many": "optimiser",
    "read_manifest": "files.model_file",
    "regularization_path": "learning.path",
    "report": "reporting",
    "select_C": "multiclass.choice",
    "save": "files.model_file",
    "table_pipeline": "learning.tables",
    "to_onnx": "files.onnx",
}
_MODULES = (
    "dask", "domains", "losses", "objectives", "optimiser", "saddle", "streaming", "structured",
)  # fmt: skip


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        return getattr(import_module(f"cornerstep.{_LAZY[name]}"), name)
    if name in (*_MODULES, "torch"):  # not listed: it needs torch
        return import_module(f"cornerstep.{name}")
    raise AttributeError(f"module 'cornerstep' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*__all__, *_MODULES])
