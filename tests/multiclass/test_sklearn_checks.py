"""MulticlassSVC is a citizen of scikit-learn."""

import pytest
from sklearn.base import clone
from sklearn.utils.estimator_checks import parametrize_with_checks

from cornerstep import MulticlassSVC

# The checks compare models to 1e-7, which takes a gap to match (its square for smooth losses);
# and gamma="scale" would change with the repeated rows that stand for weights.
ESTIMATORS = [
    MulticlassSVC(tol=0),
    MulticlassSVC(smoothing=0, tol=1e-10),
    MulticlassSVC(loss="usunier", k=1, tol=1e-10),
    MulticlassSVC(kernel="rbf", gamma=1.0, smoothing=0, tol=1e-10),
    MulticlassSVC(solver="fw", tol=0.05),
    MulticlassSVC(loss="softmax", tol=0),
]


@parametrize_with_checks(ESTIMATORS)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_scikit_learn_checks(estimator, check):
    if "memmap" in str(check):  # streamed, which takes longer, and compared with no other model
        estimator = clone(estimator).set_params(tol=0.01)
    check(estimator)
