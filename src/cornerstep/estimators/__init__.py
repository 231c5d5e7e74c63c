"""Estimators: validate, build a problem, run, read off attributes."""

from cornerstep.estimators.boosting import SoftMarginBoostingClassifier
from cornerstep.estimators.multiclass import MulticlassSVC
from cornerstep.estimators.path import RegularizationPath, regularization_path

__all__ = [
    "MulticlassSVC",
    "RegularizationPath",
    "SoftMarginBoostingClassifier",
    "regularization_path",
]
