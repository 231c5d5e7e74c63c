"""Estimators: validate, build a problem, run, read off attributes."""

from cornerstep.estimators.multiclass import MulticlassSVC
from cornerstep.estimators.path import RegularizationPath, regularization_path
from cornerstep.estimators.reduced_hull import ReducedHullSVC

__all__ = ["MulticlassSVC", "ReducedHullSVC", "RegularizationPath", "regularization_path"]
