"""The attack: a few cases of each family hold, planted lies are caught, ten minutes of it hold."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from attack import (
    boosting_family,
    choice_family,
    hulls_family,
    kernel_family,
    minimize_family,
    multiclass_family,
)
from attack import structured_family as structured
from attack.families import NAMES, attack_of
from attack.judge import Judge, RefusedError, judge_case
from attack.multiclass_task import check as check_multiclass
from attack.runner import run

from cornerstep import (
    MulticlassSVC,
    ReducedHullSVC,
    SoftMarginBoostingClassifier,
    StructuredSVC,
    minimize,
)

CASES = {
    "minimize": 30,
    "saddle": 30,
    "kernel": 20,
    "hulls": 20,
    "arrays": 6,
    "files": 2,
    "choice": 4,
}
SECONDS = 600  # of the slow test, all families together

RNG = np.random.default_rng(0)
Y = np.arange(12) % 3
X = RNG.standard_normal((12, 2)) + Y[:, None]


@pytest.mark.parametrize("name", NAMES)
def test_a_few_cases_hold(name):
    for seed in range(CASES.get(name, 8)):
        verdict = judge_case(attack_of(name), 30_000 + seed)
        assert not verdict.violations, f"python -m attack --replay {name}:{verdict.seed}"


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_minutes_of_it_hold(name):
    tally = run(name, 1, SECONDS / len(NAMES))
    replays = [f"python -m attack --replay {name}:{verdict.seed}" for verdict in tally.broken]
    assert tally.cases
    assert not replays


def _rules(check, *args):
    """The rules that an answer breaks."""
    judge = Judge()
    with np.errstate(all="ignore"):
        check(*args, judge)
    return judge.violations


def test_lies_of_minimize_are_caught():
    problem = minimize_family.draw(np.random.default_rng(0), Judge())
    how: dict[str, Any] = {"tol": 1e-6, "max_iter": 100}
    honest = minimize(problem.objective, problem.region.domain, **how)

    def broken(**changes):
        judge = Judge()
        minimize_family.check(problem, replace(honest, **changes), judge, how)
        return judge.violations

    size = abs(honest.value) + honest.gap + 1
    assert not broken()
    assert broken(value=honest.value - size)
    assert broken(lower_bound=honest.value + size)
    assert broken(gap=-1.0)
    assert broken(gap=np.nan)
    assert broken(x=honest.x + 10 * problem.region.size)
    cut = minimize(problem.objective, problem.region.domain, max_iter=0, tol=0)
    assert any("gap" in rule for rule in _gapless(problem, cut))


def _gapless(problem, result):
    judge = Judge()
    minimize_family.check(
        problem, replace(result, gap=0.0, lower_bound=result.value), judge, {"max_iter": 0}
    )
    return judge.violations


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_lies_of_a_multiclass_machine_are_caught(kernel):
    given: dict[str, Any] = {"C": 1.0, "fit_intercept": True}
    if kernel == "rbf":
        given |= {"kernel": "rbf", "gamma": 1.0, "degree": 2, "coef0": 1.0}
    task = multiclass_family.task_of(given, X, Y, None, 3)

    def broken(**changes):
        model = MulticlassSVC(**given, random_state=0).fit(X, Y)
        for name, value in changes.items():
            setattr(model, name, value(getattr(model, name)))
        return _rules(check_multiclass, task, model, 1e-3)

    assert not broken()
    assert broken(objective_=lambda v: 0.9 * v)
    assert broken(bound_=lambda v: 1.1 * v)
    assert broken(gap_=lambda v: -v)
    assert broken(relative_gap_=lambda v: v / 2)
    assert any("domain" in rule for rule in broken(dual_coef_=lambda v: 3 * v))
    assert broken(dual_coef_=lambda v: 0.5 * v)
    if kernel == "linear":
        assert broken(coef_=lambda v: 1.1 * v)
        assert broken(intercept_=lambda v: v + 1)


def _change(model, changes):
    """Change attributes, or what the proofs of all machines say."""
    for name, value in changes.items():
        if name.endswith("_"):
            setattr(model, name, value(getattr(model, name)))
        else:
            model.machines_ = [
                m._replace(**{name: value(getattr(m, name))}) for m in model.machines_
            ]


@pytest.mark.parametrize("size", [{"C": 1.0}, {"nu": 0.4}])
def test_lies_of_a_kernel_machine_are_caught(size):
    given = {"kernel": "rbf", "gamma": 1.0, "degree": 2, "coef0": 1.0, **size}
    problems = kernel_family.pairs(X, Y, None, given)

    def broken(**changes):
        model = ReducedHullSVC(**given, random_state=0).fit(X, Y)
        _change(model, changes)
        return _rules(kernel_family.check, problems, model, Y)

    assert not broken()
    assert broken(objective=lambda v: 0.9 * v)
    assert broken(gap=lambda v: 0 * v)
    assert broken(dual_coef_=lambda v: 1.5 * v)
    assert broken(dual_coef_=lambda v: np.roll(v, 1, axis=1))


@pytest.mark.parametrize("given", [{"nu": 0.4}, {"C": 1.0, "nu": 0.4}, {"C": 1.0, "epsilon": 0.1}])
def test_lies_of_one_class_and_regression_are_caught(given):
    given = {"kernel": "rbf", "gamma": 1.0, "degree": 2, "coef0": 1.0, **given}
    hulls, used = hulls_family.posed(X, X[:, 0], None, given)

    def broken(**changes):
        model = hulls_family.made(given, random_state=0).fit(X, X[:, 0])
        for name, change in changes.items():
            setattr(model, name, change(getattr(model, name)))
        return _rules(hulls_family.check, hulls, used, model)

    assert not broken()
    assert broken(objective_=lambda v: 0.9 * v)
    assert broken(gap_=lambda v: 0 * v)
    assert broken(dual_coef_=lambda v: 1.5 * v)
    assert broken(dual_coef_=lambda v: np.roll(v, 1, axis=1))


def test_a_bound_of_errors_that_is_too_high_is_caught():
    model = MulticlassSVC(tol=1e-9, random_state=0).fit(X, Y)
    most, wrong = choice_family.errors(model, X, Y)
    assert wrong == (model.predict(X) != Y).sum() <= most
    loose = MulticlassSVC(tol=0.9, max_iter=1, random_state=0).fit(X, Y)
    assert choice_family.errors(loose, X, Y)[0] > most  # a wide ball decides less


def test_lies_of_a_structured_model_are_caught():
    task = structured._chain(np.random.default_rng(3))
    how: dict[str, Any] = {"atol": 1e-2, "max_iter": 100}
    model = StructuredSVC(task.model, random_state=0, **how).fit(task.X, task.Y)
    weights, value = model.coef_, model.objective_
    model.coef_ = 2 * weights + 1
    assert _rules(structured.check, task, model, how)
    model.coef_, model.objective_ = weights, 0.5 * value
    assert _rules(structured.check, task, model, how)


def test_lies_of_boosting_are_caught():
    y = (Y > 0).astype(int)

    def broken(**changes):
        model = SoftMarginBoostingClassifier(nu=0.3, atol=0.01).fit(X, y)
        _change(model, changes)
        return _rules(boosting_family.check, model, X, y, np.ones(12))

    assert not broken()
    assert broken(objective=lambda v: v + 0.1)
    assert broken(bound=lambda v: v - 0.1)
    assert broken(example_weights_=lambda v: np.roll(v, 1) + 0.01)


def test_the_judge_hears_errors_and_warnings():
    judge = Judge()
    for function in (
        lambda: np.linalg.inv(np.zeros((2, 2))),
        lambda: [][0],
        lambda: np.concatenate([]),
        lambda: 1 // 0,
    ):
        with pytest.raises(RefusedError):
            judge.call(function)
    judge.call(warnings.warn, "something", RuntimeWarning)
    judge.call(lambda: np.float64(1e308) * 10)
    assert len(judge.violations) == 6
    judge = Judge()
    with pytest.raises(RefusedError):
        judge.call(MulticlassSVC(C=-1.0).fit, X, Y)
    assert not judge.violations
    assert judge.refuses("an honest fit", MulticlassSVC().fit, X, Y) is not None
    assert judge.violations


def test_a_case_that_does_not_end_is_ended():
    def attack(rng, judge):
        while True:
            rng.standard_normal(100)

    verdict = judge_case(attack, 0, limit=0.2)
    assert verdict.late
    assert "does not end" in verdict.violations[0]


def test_a_case_is_the_same_each_time():
    def draws(seed):
        found = []
        judge_case(lambda rng, judge: found.append(multiclass_family.draw(rng)[0]), seed)
        return found[0]

    assert np.array_equal(draws(5), draws(5))
