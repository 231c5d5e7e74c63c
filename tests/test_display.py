"""Notebook displays carry the certificate."""

import numpy as np
import pytest

from cornerstep import MulticlassSVC, minimize
from cornerstep.domains import Simplex
from cornerstep.objectives import LeastSquares
from fitted_models import classifier, structured


@pytest.mark.parametrize("name", ["linear", "hull, C, three classes", "trees"])
def test_estimators_show_their_certificate(name):
    model = classifier(name)[0]
    for shown in (model._repr_html_(), model._repr_mimebundle_()["text/html"]):
        assert shown.count("certificate") == 1
        assert "solved" in shown
        assert type(model).__name__ in shown


def test_structured_models_and_unfitted_ones():
    assert "certificate" in structured("chain")[0]._repr_html_()
    assert "certificate" not in MulticlassSVC()._repr_html_()


def test_results_show_theirs():
    result = minimize(LeastSquares(np.eye(3), np.arange(3.0)), Simplex(3))
    shown = result._repr_html_()
    for words in ("solved", "lower bound", "gap", f"{result.value:.9g}"):
        assert words in shown
