"""Estimators: validate, build a problem, run, read off attributes."""

from cornerstep.estimators.multiclass import MulticlassSVC
from cornerstep.estimators.path import RegularizationPath, regularization_path
from cornerstep.estimators.structured import StructuredSVC

__all__ = ["MulticlassSVC", "RegularizationPath", "StructuredSVC", "regularization_path"]
