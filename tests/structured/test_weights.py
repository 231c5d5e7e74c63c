"""Weights of examples: a weight of 2 is as good as two examples, 0 as none."""

from typing import Any, cast

import numpy as np
import pytest

from cornerstep import StructuredSVC, certify, load, regularization_path, save
from cornerstep.structured import ChainModel, MatchingModel, MulticlassModel
from cornerstep.structured.models.base import items
from cornerstep.structured.problem import ModelExamples
from cornerstep.structured.solvers.chains import ChainExamples
from cornerstep.structured.solvers.planes import RULES
from support.structured_problems import PROBLEMS, chains, matchings, primal, rows

SOLVERS = (*RULES, "fw", "subgradient", "extragradient")
SOFT = ("chain", "independent", "multiclass", "matching")
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


def repeated(X, Y, counts):
    """The examples, each so many times."""
    take = np.repeat(np.arange(len(counts)), counts)
    if isinstance(X, np.ndarray):
        return X[take], Y[take]
    return [X[i] for i in take], [Y[i] for i in take]


def counts_of(Y, seed=0):
    """Repetitions that leave nobody's labels out: the first examples stay."""
    counts = np.random.default_rng(seed).integers(0, 4, size=len(Y))
    counts[: len(Y) // 2] = np.maximum(counts[: len(Y) // 2], 1)
    return counts


@pytest.mark.parametrize("name", PROBLEMS)
@pytest.mark.parametrize("solver", SOLVERS)
def test_weights_are_repetitions(name, solver):
    if solver == "extragradient" and name not in SOFT:
        pytest.skip("the model does not soften")
    model, X, Y = PROBLEMS[name]
    counts = counts_of(Y)
    options: dict[str, Any] = {
        "C": 0.5,
        "solver": solver,
        "atol": 1e-3,
        "max_iter": 40,
        "random_state": 0,
    }
    one = StructuredSVC(model, **options).fit(X, Y, counts)
    many = StructuredSVC(model, **options).fit(*repeated(X, Y, counts))
    assert one.lam_ == pytest.approx(many.lam_, rel=1e-12)
    assert one.model_.size == many.model_.size
    assert one.bound_ <= many.objective_
    assert many.bound_ <= one.objective_
    examples, labels = repeated(X, Y, counts)
    value = primal(one.model_, examples, labels, one.coef_, one.lam_)
    assert value <= one.objective_ <= value + one.gap_


@pytest.mark.parametrize("name", ["chain", "ranking", "multiclass"])
@pytest.mark.parametrize("sampling", ["permuted", "uniform", "gap"])
@pytest.mark.parametrize("cache_passes", [0, 5])
def test_weighted_blocks_reach_the_optimum(name, sampling, cache_passes):
    model, X, Y = PROBLEMS[name]
    counts = counts_of(Y, 1)
    options: dict[str, Any] = {
        "C": 0.3,
        "atol": 1e-4,
        "max_iter": 20_000,
        "averaging": False,
        "random_state": 0,
    }
    one = StructuredSVC(
        model, solver="bcfw-pairwise", sampling=sampling, cache_passes=cache_passes, **options
    ).fit(X, Y, counts)
    many = StructuredSVC(model, solver="bcfw-auto", **options).fit(*repeated(X, Y, counts))
    assert one.status_.value == many.status_.value == "solved"
    assert one.objective_ == pytest.approx(many.objective_, abs=1e-4)


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("debug", [False, True])
def test_weight_of_zero_leaves_out_and_uniform_weights_are_none(solver, debug):
    X, Y = chains(n=10)
    if debug and solver == "extragradient":
        pytest.skip("not debugged")
    weights = np.ones(10)
    weights[[0, 4]] = 0
    kept = np.flatnonzero(weights)
    options: dict[str, Any] = {"solver": solver, "max_iter": 10, "random_state": 0, "debug": debug}
    some = StructuredSVC(ChainModel(), **options).fit(X, Y, weights)
    fewer = StructuredSVC(ChainModel(), **options).fit([X[i] for i in kept], [Y[i] for i in kept])
    np.testing.assert_array_equal(some.coef_, fewer.coef_)
    assert some.gap_ == fewer.gap_
    plain = StructuredSVC(ChainModel(), lam=0.1, **options).fit(X, Y)
    for scale in (1, 1e-300, 3e300):
        uniform = StructuredSVC(ChainModel(), lam=0.1, **options).fit(X, Y, np.full(10, scale))
        np.testing.assert_array_equal(uniform.coef_, plain.coef_)
        assert uniform.gap_ == plain.gap_


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("seed", range(6))
def test_gap_bounds_the_true_error(solver, seed):
    """By brute force, for weights of very different sizes."""
    rng = np.random.default_rng(seed)
    name = ("chain", "matching", "multiclass")[seed % 3]
    model, X, Y = PROBLEMS[name]
    weights = 10.0 ** rng.uniform(-8, 3, size=len(Y))
    C = 10.0 ** rng.uniform(-3, 2) / weights.sum()
    best, found = np.inf, []
    for max_iter, rule in ((int(rng.integers(0, 4)), solver), (300, "bcfw-auto")):
        clf = StructuredSVC(
            model, C=C, solver=rule, atol=0.0, max_iter=max_iter, averaging=bool(seed % 2),
            random_state=seed,
        ).fit(X, Y, weights)  # fmt: skip
        value = primal(clf.model_, X, Y, clf.coef_, clf.lam_, weights)
        assert value <= clf.objective_ * (1 + 1e-12)
        best = min(best, value)
        found.append((value, clf))
    for value, clf in found:
        assert clf.bound_ <= best * (1 + 1e-12)
        assert value - best <= clf.gap_ * (1 + 1e-12)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("remembered", [False, True])
def test_compiled_blocks_take_the_steps_of_general_blocks(rule, remembered):
    X, Y = chains(n=10, seed=3)
    rng, model = np.random.default_rng(0), ChainModel(biases=True)
    model.prepare(X, Y)
    weights = rng.uniform(0.1, 1, size=10)
    fast = ChainExamples(model.encode_chains(X, Y), model.size, weights).blocks(0.02, 5)
    slow = ModelExamples(model, X, Y, weights).blocks(0.02, 5)
    slow.inner = 1  # as those of chains
    for _ in range(2):
        order = rng.permutation(10)
        for blocks in (fast, slow):
            blocks.sweep(order, rule, False)
            if remembered:
                blocks.sweep(order, "bcfw-pairwise" if rule == "bcfw" else rule, True)
        np.testing.assert_allclose(fast.w, slow.w, atol=1e-9)
        np.testing.assert_allclose(fast.numbers, slow.numbers, rtol=1e-9)
        np.testing.assert_allclose(fast.gaps, slow.gaps, atol=1e-9)
    for blocks in (fast, slow):
        w, linear = blocks.w.copy(), blocks.linear
        blocks.rebuild()
        np.testing.assert_allclose(w, blocks.w, atol=1e-12)
        assert linear == pytest.approx(blocks.linear, rel=1e-12)


def test_compiled_and_general_sums_agree():
    X, Y = chains(n=9, seed=2)
    model, rng = ChainModel(biases=True), np.random.default_rng(1)
    model.prepare(X, Y)
    weights, w = rng.uniform(0.1, 1, size=9), rng.standard_normal(model.size)
    fast = ChainExamples(model.encode_chains(X, Y), model.size, weights)
    slow = ModelExamples(model, X, Y, weights)
    for one, other in zip(fast.corners(w), slow.corners(w), strict=True):
        np.testing.assert_allclose(cast(Any, one), cast(Any, other), atol=1e-12)
    sums = []
    for examples in (fast, slow):
        total, late, numbers = np.zeros(model.size), np.zeros(model.size), np.zeros(2)
        examples.subgradient_sweep(np.arange(9), 0.1, total, late, numbers)
        sums.append((total, late, numbers))
    for one, other in zip(*sums, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-12)


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("model", [ChainModel(), MulticlassModel(), MatchingModel()])
def test_certify_asks_for_the_weights(solver, model):
    name = {ChainModel: "chain", MulticlassModel: "multiclass"}.get(type(model), "matching")
    _, X, Y = PROBLEMS[name]
    weights = np.random.default_rng(0).uniform(0, 3, size=len(Y))
    weights[-1] = 0
    clf = StructuredSVC(model, solver=solver, max_iter=5, random_state=0).fit(X, Y, weights)
    assert certify(clf, X, Y, weights).holds
    assert not certify(clf, X, Y).holds


def test_warm_start_with_other_weights():
    X, Y = chains(n=20)
    rng = np.random.default_rng(0)
    for solver in (*RULES, "fw"):
        options: dict[str, Any] = {
            "solver": solver,
            "atol": 0.02,
            "max_iter": 3000,
            "random_state": 0,
        }
        clf = StructuredSVC(ChainModel(), warm_start=True, **options)
        for _ in range(3):
            weights = rng.uniform(0.5, 2, size=20)
            clf.fit(X, Y, weights)
            cold = StructuredSVC(ChainModel(), **options).fit(X, Y, weights)
            assert clf.bound_ <= cold.objective_
            assert cold.bound_ <= clf.objective_
            assert certify(clf, X, Y, weights).holds
        again = clf.fit(X, Y, weights)
        assert again.n_iter_ <= 1


def test_paths_and_files_of_weighted_models(tmp_path):
    X, Y = chains(n=12)
    weights = np.arange(12)
    path = regularization_path(
        StructuredSVC(ChainModel(), random_state=0), X, Y, [0.1, 1], sample_weight=weights
    )
    np.testing.assert_allclose(path.column("lam_"), 1 / (weights.sum() * path.values))
    save(path.estimators[-1], tmp_path / "model.cornerstep")
    assert certify(load(tmp_path / "model.cornerstep"), X, Y, weights).holds


@pytest.mark.parametrize(
    "weights",
    [
        np.ones(11), np.ones((12, 1)), 1.0, -np.ones(12), np.full(12, np.nan), np.full(12, np.inf),
        np.zeros(12), np.full(12, 1e308), ["a"] * 12, [[1]] * 11 + [[1, 2]], [None] * 12,
    ],
)  # fmt: skip
def test_bad_weights_are_one_clear_error(weights):
    X, Y = chains()
    clf = StructuredSVC(ChainModel()).fit(X, Y)
    for ask in (StructuredSVC(ChainModel()).fit, lambda *data: certify(clf, *data)):
        with pytest.raises(ValueError, match="sample_weight must be 12 finite numbers >= 0"):
            ask(X, Y, weights)


@pytest.mark.parametrize("name", PROBLEMS)
def test_the_chosen_lambda_knows_weights(name):
    model, X, Y = PROBLEMS[name]
    counts = counts_of(Y)
    one = StructuredSVC(model, random_state=0).fit(X, Y, counts)
    many = StructuredSVC(model, random_state=0).fit(*repeated(X, Y, counts))
    assert one.lam_ == pytest.approx(many.lam_, rel=1e-12)
    assert one.chosen() == {"lam": one.lam_}
    assert certify(one, X, Y, counts).holds
    one.lam_ *= 1.01
    assert any("lam_ is" in problem for problem in certify(one, X, Y, counts).problems)


@pytest.mark.parametrize(
    ("model", "make"),
    [(MulticlassModel(fit_intercept=False), rows), (MatchingModel(), matchings)],
    ids=["multiclass", "matching"],
)
def test_the_chosen_lambda_knows_no_units(model, make):
    """Features times 10: weights a tenth as large, and the same objective."""
    X, Y = make()
    options: dict[str, Any] = {"atol": 1e-4, "random_state": 0}
    one = StructuredSVC(model, **options).fit(X, Y)
    other = StructuredSVC(model, **options).fit([10 * x for x in X], Y)
    assert other.lam_ == pytest.approx(100 * one.lam_, rel=1e-9)
    assert other.objective_ == pytest.approx(one.objective_, abs=2e-4)


@pytest.mark.parametrize("C", [1e308, 1e-320])
def test_lambda_must_be_a_number(C):
    with pytest.raises(ValueError, match="C must leave lambda"):
        StructuredSVC(ChainModel(), C=C).fit(*chains())


def test_many_kinds_of_weights():
    X, Y = PROBLEMS["multiclass"][1:]
    weights = np.arange(len(Y)) % 3
    plain = StructuredSVC(MulticlassModel(), random_state=0).fit(X, Y, weights)
    for kind in (list, tuple, lambda v: v.astype(np.float32), lambda v: v.astype(np.uint8)):
        other = StructuredSVC(MulticlassModel(), random_state=0).fit(items(X), Y, kind(weights))
        np.testing.assert_array_equal(plain.coef_, other.coef_)
