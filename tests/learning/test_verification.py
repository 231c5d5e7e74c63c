"""Certificates recomputed from the data: true ones hold, false ones are found out."""

import copy
from typing import Any

import numpy as np
import pytest

from cornerstep import MulticlassSVC, Verification, certificate, certify, minimize
from cornerstep.domains import Simplex
from cornerstep.objectives import LeastSquares
from support.fitted_models import CLASSIFIERS, LABELS, X, classifier, structured

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_certificates_hold(name):
    model, data, labels = classifier(name)
    check = certify(model, data, labels)
    assert isinstance(check, Verification)
    assert check.holds, check.problems
    assert check.gap <= check.claimed.gap * (1 + 1e-6) + 1e-6 * abs(check.values).max()
    assert check.to_dict()["holds"] is True


@pytest.mark.parametrize("name", ["chain", "own"])
def test_structured_certificates_hold(name):
    model, inputs, labelings = structured(name)
    check = certify(model, inputs, labelings)
    assert check.holds, check.problems
    assert check.values[0] == pytest.approx(model.objective_, rel=1e-9)


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_other_data_is_found_out(name):
    model, data, labels = classifier(name)
    assert not certify(model, 0.5 * data[:, ::-1], labels).holds


def changed(name, **attributes):
    model, data, labels = classifier(name)
    model = copy.copy(model)
    for key, value in attributes.items():
        setattr(model, key, value)
    return certify(model, data, labels)


def test_false_claims_are_found_out():
    linear, hull, trees = (classifier(name)[0] for name in ("linear", "hull", "trees"))
    assert any("gap" in p for p in changed("linear", gap_=0.0).problems)
    assert any("objective" in p for p in changed("linear", coef_=1.1 * linear.coef_).problems)
    assert any(
        "domain" in p for p in changed("linear", dual_coef_=1.5 * linear.dual_coef_).problems
    )
    assert not changed("hull", gap_=0.0, objective_=0.9 * hull.objective_).holds
    assert any("domain" in p for p in changed("hull", dual_coef_=1.2 * hull.dual_coef_).problems)
    assert not changed("trees", objective_=trees.objective_ + 0.1).holds
    assert not changed("trees", example_weights_=np.ones(100) / 100).holds
    chain, inputs, labelings = structured("chain")
    liar = copy.copy(chain)
    liar.coef_ = 0.5 * chain.coef_
    assert not certify(liar, inputs, labelings).holds


@pytest.mark.parametrize("seed", [6, 17, 47, 52])
def test_no_rounding_makes_an_objective_smaller_than_half_the_squared_weights(seed):
    rng = np.random.default_rng(seed)
    data, labels = X[LABELS < 2], LABELS[LABELS < 2]
    data = data * 10 ** rng.uniform(-3, 3) + 10 ** rng.uniform(-2, 3)
    given: Any = {"C": 10 ** rng.uniform(12, 20), "intercept_scaling": rng.uniform(0.1, 0.9)}
    model = MulticlassSVC(**given, random_state=0).fit(data, labels)
    assert certify(model, data, labels).holds
    factor = 2 * np.sqrt(model.objective_ / (0.25 * (model.coef_**2).sum()))
    liar = copy.copy(model)
    liar.coef_ = factor * model.coef_  # half its square is four times the objective
    assert not certify(liar, data, labels).holds


def test_wrong_data_is_named():
    model = classifier("linear")[0]
    with pytest.raises(ValueError, match="trained on 150 examples, the data has 100"):
        certify(model, X[:100], classifier("linear")[2][:100])
    with pytest.raises(ValueError, match="label"):
        certify(model, X, LABELS)
    with pytest.raises(ValueError, match="as many"):
        certify(model, X[:10], classifier("linear")[2])


def test_certificates_of_results_and_many_machines():
    result = minimize(LeastSquares(np.eye(3), np.arange(3.0)), Simplex(3))
    proof = certificate(result)
    assert proof.gap == pytest.approx(result.value - result.lower_bound)
    many = certificate(classifier("hull, C, three classes")[0])
    assert many.names == ("setosa or versicolor", "setosa or virginica", "versicolor or virginica")
    assert many.gap == max(many.gaps)
    assert "largest of 3 machines" in many.sentence
    with pytest.raises(ValueError, match="fitted"):
        certificate(object())
