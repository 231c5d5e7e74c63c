"""Notebook displays carry the certificate."""

import numpy as np
import pytest

from cornerstep import MulticlassSVC, load, minimize, save
from cornerstep.domains import Simplex
from cornerstep.objectives import LeastSquares
from support.fitted_models import classifier, structured


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


@pytest.mark.parametrize(
    "name", ["linear", "linear, two classes", "hull", "hull, C, three classes"]
)
def test_margins_are_drawn_and_cross_zero_at_the_error(name):
    pytest.importorskip("matplotlib").use("Agg")
    model, X, y = classifier(name)
    ax = model.plot_margins(X, y)
    across, share = ax.get_lines()[0].get_data()
    assert (np.diff(across) >= 0).all()
    assert share[-1] == 1.0
    wrong = np.mean(model.predict(X) != y)
    assert np.searchsorted(across, 0.0) / len(y) == pytest.approx(wrong, abs=1e-12)
    assert model.plot_margins(X, y, ax) is ax


@pytest.mark.parametrize("name", ["linear", "hull, C, three classes", "trees, three classes"])
def test_gaps_are_drawn_for_every_machine(name, tmp_path):
    pytest.importorskip("matplotlib").use("Agg")
    model = classifier(name)[0]
    save(model, tmp_path / "model.cornerstep")
    for shown in (model, load(tmp_path / "model.cornerstep")):
        assert len(shown.machines_) == (1 if name == "linear" else 3)
        for machine in shown.machines_:
            ax = machine.trace.plot(x="seconds")
            assert ax.get_yscale() == "log"
            assert len(ax.get_lines()) == 1


def test_margins_need_a_trained_model():
    with pytest.raises(ValueError, match="not fitted"):
        MulticlassSVC().plot_margins(np.eye(2), [0, 1])
