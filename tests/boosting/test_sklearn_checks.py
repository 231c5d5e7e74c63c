"""SoftMarginBoostingClassifier is a citizen of scikit-learn."""

import pytest
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils.estimator_checks import parametrize_with_checks

from cornerstep import SoftMarginBoostingClassifier

ESTIMATORS = [
    SoftMarginBoostingClassifier(atol=0.05),
    SoftMarginBoostingClassifier("erlpboost", nu=0.5, atol=0.05, max_depth=1),
    SoftMarginBoostingClassifier("lpboost", nu=0.3, atol=0.05),
    SoftMarginBoostingClassifier("cerlpboost", nu=0.5, atol=0.05, step="pairwise", max_iter=20),
    SoftMarginBoostingClassifier(
        nu=0.1, atol=0.2, weak_learner=DecisionTreeClassifier(max_depth=2), max_iter=10
    ),
]


def expected_failures(estimator):
    """Trees part the check's training blobs without error, whatever the classes weigh.

    The check wants nearly all predictions in the class of weight 1e7 times the other's; an ensemble
    that is right about both has the largest soft margin under all weights.
    """
    return {"check_class_weight_classifiers": expected_failures.__doc__}


@parametrize_with_checks(ESTIMATORS, expected_failed_checks=expected_failures)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_scikit_learn_checks(estimator, check):
    check(estimator)
