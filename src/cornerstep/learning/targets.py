"""What classifiers make of their targets: classes, labels by number, weights of examples."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight

from cornerstep.core.types import FloatArray, IntArray


def classes_and_labels(y: Any) -> tuple[Any, IntArray]:
    """The classes in order, at least two, and the number of each example's class."""
    with warnings.catch_warnings():  # few examples per class are an ordinary case here
        warnings.filterwarnings("ignore", "The number of unique classes is greater than 50%")
        check_classification_targets(y)
    classes, labels = np.unique(y, return_inverse=True)
    if classes.size < 2:
        raise ValueError(
            "y must have at least two classes: the classifier can't train when only one class "
            f"is present, {classes.tolist()[0]!r}"
        )
    return classes, labels


def example_weights(
    X: Any, labels: IntArray, classes: Any, sample_weight: Any, class_weight: Any
) -> FloatArray:
    """The weight of each example: its own times that of its class."""
    weights = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
    if class_weight is not None:
        counts = np.bincount(labels, minlength=classes.size)
        weights = weights * class_factors(class_weight, classes, counts)[labels]
    return np.asarray(weights, dtype=np.float64)


def class_factors(class_weight: Any, classes: Any, counts: Any) -> FloatArray:
    """The weight of each class, of classes that so many examples have."""
    if class_weight is None:
        return np.ones(classes.size)
    if isinstance(class_weight, str) and class_weight == "balanced":
        return counts.sum() / (classes.size * np.maximum(counts, 1))
    given = class_weight
    if isinstance(given, dict):
        given = {i: given[label] for i, label in enumerate(classes) if label in given}
    numbers = np.arange(classes.size)
    factors = np.asarray(compute_class_weight(given, classes=numbers, y=numbers), np.float64)
    if not (factors >= 0).all():
        raise ValueError(f"class_weight must be numbers >= 0, got {class_weight!r}")
    return factors
