"""ReducedHullSVC is a citizen of scikit-learn."""

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from cornerstep import ReducedHullSVC

# The checks compare models to 1e-7, which takes a gap to match; and gamma="scale" would change with
# the repeated rows that stand for weights.
ESTIMATORS = [
    ReducedHullSVC(gamma=1.0, tol=1e-10),
    ReducedHullSVC(C=1.0, gamma=1.0, tol=1e-10),
    ReducedHullSVC(gamma=1.0, method="di-pairwise", tol=1e-3, max_iter=2000),
]


@parametrize_with_checks(ESTIMATORS)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_scikit_learn_checks(estimator, check):
    check(estimator)
