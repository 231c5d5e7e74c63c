"""Lazy rules: vertices seen before while they promise enough, true calls for what is certified."""

from __future__ import annotations

import numpy as np
import pytest

from cornerstep import minimize
from cornerstep.domains import Birkhoff
from cornerstep.objectives import Quadratic
from cornerstep.optimiser import Away, BlendedPairwise, FullyCorrective, Pairwise
from support.optimiser_problems import problem

STEPWISE = (Away, Pairwise, BlendedPairwise)


@pytest.mark.parametrize("rule", [*STEPWISE, FullyCorrective])
@pytest.mark.parametrize("domain", ["simplex", "birkhoff", "polytope", "product"])
@pytest.mark.parametrize("objective", ["least-squares", "logistic"])
def test_lazy_rules_arrive_with_a_true_certificate(rule, domain, objective):
    case = problem(domain, objective, "face")
    result = minimize(case.objective, case.domain, method=rule(lazy=True), tol=1e-5)
    assert result.success
    assert case.gap(result.x) <= result.gap * (1 + 1e-9)
    assert result.lower_bound <= case.optimum + 1e-8
    assert result.value <= case.optimum + result.gap + 1e-8


@pytest.mark.parametrize("rule", STEPWISE)
def test_lazy_rules_ask_the_oracle_seldom(rule):
    """At the same gap; no gap is shown where the oracle was not asked."""
    rng = np.random.default_rng(0)
    f, domain = Quadratic(np.diag(rng.uniform(0.5, 2, 100)), -rng.random(100)), Birkhoff(10)
    eager = minimize(f, domain, method=rule(), rtol=1e-5, tol=0.0)
    lazy = minimize(f, domain, method=rule(lazy=True), rtol=1e-5, tol=0.0)
    assert eager.success
    assert lazy.success
    assert lazy.n_oracle_calls <= eager.n_oracle_calls / 5
    known = np.isfinite(lazy.trace["gap"].astype(float))
    assert known.sum() <= lazy.n_oracle_calls
    assert (lazy.trace["value"] - lazy.trace["gap"])[known].max() <= lazy.value
    assert np.diff(lazy.trace["value"]).max() <= 1e-12


def test_a_lazy_rule_forgets_vertices_when_there_are_many(monkeypatch):
    monkeypatch.setattr("cornerstep.optimiser.methods._SEEN", 8)
    case = problem("birkhoff", "least-squares", "interior")
    result = minimize(case.objective, case.domain, method=Pairwise(lazy=True))
    assert result.success
