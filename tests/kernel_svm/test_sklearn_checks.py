"""Kernel machines are citizens of scikit-learn."""

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from cornerstep import OneClassHull, ReducedHullSVC, ReducedHullSVR

# The checks compare models to 1e-7, which takes a gap to match; and gamma="scale" would change with
# the repeated rows that stand for weights.
ESTIMATORS = [
    ReducedHullSVC(nu=0.35, gamma=10.0, tol=1e-10),  # hulls far enough apart for float64
    ReducedHullSVC(C=1.0, gamma=1.0, tol=1e-10),
    ReducedHullSVC(C=1.0, gamma=1.0, solver="di-pairwise", tol=1e-9, max_iter=1000),
    OneClassHull(nu=0.35, gamma=1.0, tol=1e-10),
    ReducedHullSVR(gamma=1.0, tol=1e-10),
    ReducedHullSVR(nu=0.35, gamma=1.0, tol=1e-10),
]


def expected_failures(estimator):
    """What has no nu-machine: the checks are written for classifiers that answer to anything."""
    if isinstance(estimator, OneClassHull):
        why = "free support vectors lie on the border: rounding says on which side"
        kinds = "dense", "sparse"
        return {f"check_sample_weight_equivalence_on_{kind}_data": why for kind in kinds}
    if estimator.nu is None or isinstance(estimator, ReducedHullSVR):
        return {}
    return {
        # caps of 1000 in one class and 0.0001 in the other
        "check_class_weight_classifiers": "nu is infeasible for classes of such weights",
    }


@parametrize_with_checks(ESTIMATORS, expected_failed_checks=expected_failures)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_scikit_learn_checks(estimator, check):
    check(estimator)
