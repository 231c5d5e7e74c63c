"""StructuredSVC with the multi-class model is a citizen of scikit-learn."""

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from cornerstep import StructuredSVC
from cornerstep.structured import MulticlassModel


@parametrize_with_checks([StructuredSVC(MulticlassModel(), atol=0.05)])
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_scikit_learn_checks(estimator, check):
    check(estimator)
