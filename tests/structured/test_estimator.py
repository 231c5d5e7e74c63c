"""StructuredSVC: certificates, solvers, options."""

import os
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import linear_sum_assignment
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV

from cornerstep import MulticlassSVC, StructuredSVC, certify, load, regularization_path, save
from cornerstep.structured import (
    ChainModel,
    GraphModel,
    MatchingModel,
    MulticlassModel,
    MultilabelModel,
    StructuredModel,
)
from cornerstep.structured.problem import ModelExamples
from cornerstep.structured.solvers.chains import ChainExamples
from cornerstep.structured.solvers.extragradient import ExtragradientSolver
from cornerstep.structured.solvers.planes import RULES
from support.structured_problems import (
    PROBLEMS,
    Ranking,
    chains,
    graphs,
    matchings,
    optimum,
    primal,
    rankings,
    rows,
    tags,
)

SOLVERS = (*RULES, "fw", "subgradient")
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


def both_kinds(model, X, Y):
    """The compiled and the general examples of the same problem."""
    model.prepare(X, Y)
    return ChainExamples(model.encode_chains(X, Y), model.size), ModelExamples(
        model, list(X), list(Y)
    )


# ---------------------------------------------------------------- certificates


@pytest.mark.parametrize("name", PROBLEMS)
def test_optimum_lies_within_the_certificate(name):
    model, X, Y = PROBLEMS[name]
    lam = 0.1
    best = optimum(model, X, Y, lam)
    for solver in SOLVERS:
        clf = StructuredSVC(model, lam=lam, solver=solver, atol=1e-3, max_iter=60, random_state=0)
        clf.fit(X, Y)
        assert clf.bound_ <= best + 1e-6
        assert clf.objective_ >= best - 1e-6
        assert clf.gap_ >= clf.objective_ - best - 1e-6
        assert clf.gap_ == pytest.approx(clf.objective_ - clf.bound_, abs=1e-12)
        assert clf.objective_ == pytest.approx(primal(clf.model_, X, Y, clf.coef_, lam), abs=1e-9)


@pytest.mark.parametrize("name", ["chain", "graph", "ranking", "matching"])
def test_block_solvers_reach_small_gaps(name):
    model, X, Y = PROBLEMS[name]
    clf = StructuredSVC(
        model, lam=0.1, solver="bcfw-pairwise", atol=1e-4, averaging=False, random_state=0
    ).fit(X, Y)
    assert clf.status_.value == "solved"
    assert clf.objective_ == pytest.approx(optimum(model, X, Y, 0.1), abs=2e-4)


def test_multiclass_model_agrees_with_multiclass_svc():
    X, y = rows(n=60)
    labels = np.array(["b", "a", "c"])[y]
    C = 2.0
    exact = MulticlassSVC(C=C, smoothing=0, tol=1e-8).fit(X, labels)
    ours = StructuredSVC(
        MulticlassModel(), C=C, solver="bcfw-pairwise", averaging=False, atol=1e-6, max_iter=5000,
        random_state=0,
    ).fit(X, labels)  # fmt: skip
    assert ours.objective_ * C * len(X) == pytest.approx(exact.objective_, rel=1e-5)
    parts = ours.model_.split(ours.coef_)
    scores = X @ parts["coef"].T + parts["intercept"]
    np.testing.assert_array_equal(ours.predict(X), ours.model_.labels_[scores.argmax(axis=1)])
    np.testing.assert_allclose(
        scores - scores.mean(axis=1, keepdims=True),
        exact.decision_function(X) - exact.decision_function(X).mean(axis=1, keepdims=True),
        atol=0.02,
    )


# ---------------------------------------------------------------- the dual state


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("kind", [0, 1])
def test_dual_never_decreases_and_w_is_the_sum_of_its_blocks(rule, kind):
    X, Y = chains(n=15, seed=1)
    examples = both_kinds(ChainModel(biases=True), X, Y)[kind]
    blocks = examples.blocks(0.05, 0)
    rng = np.random.default_rng(0)
    last = blocks.dual()
    for _ in range(400 if kind == 0 else 20):
        for i in rng.permutation(examples.n):
            blocks.sweep(np.array([i]), rule, False)
            assert blocks.dual() >= last - 1e-12
            last = blocks.dual()
    w, linear = blocks.w.copy(), blocks.linear
    blocks.rebuild()
    np.testing.assert_allclose(w, blocks.w, atol=1e-10)
    assert linear == pytest.approx(blocks.linear, abs=1e-10)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("remembered", [False, True])
@pytest.mark.parametrize("model", [ChainModel(biases=True), ChainModel(transitions=False)])
def test_compiled_blocks_take_the_steps_of_general_blocks(rule, remembered, model):
    if rule == "bcfw-away" and remembered:
        pytest.skip("general blocks also remember answers that a step went away from")
    X, Y = chains(n=10, seed=3)
    rng = np.random.default_rng(0)
    X = [(x, rng.uniform(0.5, 2, size=len(x))) for x in X]
    fast, slow = (examples.blocks(0.02, 5 * remembered) for examples in both_kinds(model, X, Y))
    slow.inner = 1  # as those of chains
    # exact steps between two planes make ties, which rounding may break differently later on
    for _ in range(8 if rule == "bcfw" and not remembered else 2):
        order = rng.permutation(len(X))
        for blocks in (fast, slow):
            blocks.sweep(order, rule, False)
            if remembered:
                blocks.sweep(order, "bcfw-pairwise" if rule == "bcfw" else rule, True)
        np.testing.assert_allclose(fast.w, slow.w, atol=1e-9)
        np.testing.assert_allclose(fast.numbers, slow.numbers, rtol=1e-9)
        np.testing.assert_allclose(fast.average()[0], slow.average()[0], atol=1e-9)
        np.testing.assert_allclose(fast.gaps, slow.gaps, atol=1e-9)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("cached", [False, True])
def test_w_stays_the_sum_of_its_blocks_when_steps_go_to_rounding(rule, cached):
    X, Y = chains(n=30, seed=2)
    examples = both_kinds(ChainModel(), X, Y)[0]
    blocks = examples.blocks(1 / 30, 5 * cached)
    rng = np.random.default_rng(0)
    last = blocks.dual()
    for _ in range(3000):
        blocks.sweep(rng.permutation(examples.n), rule, False)
        if cached:
            blocks.sweep(rng.permutation(examples.n), "bcfw-pairwise", True)
        assert blocks.dual() >= last - 1e-12
        last = blocks.dual()
    w, sums = blocks.w.copy(), blocks.planes[1].sum(axis=1)
    np.testing.assert_allclose(sums, 1.0, atol=1e-10)
    blocks.rebuild()
    np.testing.assert_allclose(w, blocks.w, atol=1e-10)


def test_average_is_the_weighted_mean_of_all_points():
    X, Y = chains(n=6)
    for examples in both_kinds(ChainModel(), X, Y):
        blocks = examples.blocks(0.1, 0)
        points, values = [], []
        rng = np.random.default_rng(0)
        for _ in range(30):
            blocks.sweep(rng.integers(6, size=1), "bcfw", False)
            points.append(blocks.w.copy())
            values.append(blocks.linear)
        weights = np.arange(1, 31)
        w, linear = blocks.average()
        np.testing.assert_allclose(w, np.average(points, axis=0, weights=weights), atol=1e-12)
        assert linear == pytest.approx(np.average(values, weights=weights))


def test_step_is_the_formula():
    X, Y = chains(n=5)
    slow = both_kinds(ChainModel(), X, Y)[1]
    lam, n = 0.1, slow.n
    blocks = slow.blocks(lam, 0)
    y = slow.answer(2, blocks.w)
    psi = slow.truth(2).dense() - slow.feature(2, y).dense()
    w_s, l_s = psi / (lam * n), slow.loss(2, y) / n
    gamma = min(l_s / (lam * w_s @ w_s), 1.0)
    blocks.sweep([2], "bcfw", False)
    np.testing.assert_allclose(blocks.w, gamma * w_s)
    assert blocks.linear == pytest.approx(gamma * l_s)


@pytest.mark.slow
def test_planes_outgrow_their_room():
    X, Y = chains(n=4, n_labels=5, longest=6)
    options: dict[str, Any] = {
        "lam": 1e-3, "atol": 0.0, "max_iter": 60, "cache_passes": 0, "random_state": 0,
    }  # fmt: skip
    clf = StructuredSVC(ChainModel(), **options).fit(X, Y)
    slow = StructuredSVC(ChainModel(), debug=True, **options).fit(X, Y)
    np.testing.assert_allclose(clf.coef_, slow.coef_, atol=1e-8)


# ---------------------------------------------------------------- extragradient


@pytest.mark.parametrize(
    ("model", "data", "geometry"),
    [
        (ChainModel(biases=True), chains(n=15), "entropic"),
        (ChainModel(transitions=False), chains(n=15), "euclidean"),
        (MulticlassModel(), rows(n=40), "entropic"),
        (MulticlassModel(), rows(n=40), "euclidean"),
        pytest.param(MatchingModel(), matchings(n=10), "entropic", marks=pytest.mark.slow),
        (MatchingModel(), matchings(n=10), "euclidean"),
        (MatchingModel(), matchings(n=10, shape=(2, 3)), "entropic"),
    ],
)
def test_extragradient_reaches_the_objective_of_bcfw(model, data, geometry):
    X, Y = data
    lam = 0.1
    bcfw = StructuredSVC(
        model, lam=lam, solver="bcfw-pairwise", averaging=False, atol=1e-5, max_iter=5000,
        random_state=0,
    ).fit(X, Y)  # fmt: skip
    radius = float(np.linalg.norm(bcfw.coef_))
    options = {"lam": lam, "solver": "extragradient", "geometry": geometry, "atol": 1e-3}
    regularised = StructuredSVC(model, max_iter=300, **options).fit(X, Y)
    assert regularised.objective_ == pytest.approx(bcfw.objective_, abs=0.02)
    assert regularised.bound_ <= bcfw.objective_ + 1e-9
    ball = StructuredSVC(model, max_iter=500, radius=radius, **options).fit(X, Y)
    assert ball.objective_ + lam / 2 * radius**2 == pytest.approx(bcfw.objective_, abs=5e-3)
    assert ball.bound_ + lam / 2 * radius**2 <= bcfw.objective_ + 1e-6
    gaps = ball.trace_["gap"]
    if len(gaps) > 200:  # like 1/t
        assert gaps[200] <= 1.5 * gaps[50] * 50 / 200


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("geometry", ["entropic", "euclidean"])
def test_extragradient_that_began_too_fast_starts_again(geometry, monkeypatch):
    """On these matchings the first steps at the default pace would stay in the averages."""
    rng = np.random.default_rng(2)
    X = [rng.standard_normal((3, 3, 2)) for _ in range(20)]
    scores = [x[:, :, 0] + 0.5 * rng.standard_normal((3, 3)) for x in X]
    Y = [linear_sum_assignment(-score)[1] for score in scores]
    gaps = []
    for pace in (1.0, 8.0):
        monkeypatch.setattr("cornerstep.structured.solvers.extragradient._FIRST_PACE", pace)
        clf = StructuredSVC(
            MatchingModel(), lam=0.1, solver="extragradient", geometry=geometry, radius=2.0,
            atol=0.0, max_iter=100,
        )  # fmt: skip
        gaps.append(clf.fit(X, Y).gap_)
    assert gaps[1] < gaps[0]


def test_extragradient_slows_down_where_the_gap_breaks_its_promise():
    X, Y = chains(n=10)
    model = ChainModel()
    model.prepare(X, Y)
    solver = ExtragradientSolver(
        ChainExamples(model.encode_chains(X, Y), model.size), 0.1, "entropic", 1.0
    )
    solver.pace = 64.0
    gaps = []
    for _ in range(200):
        gaps.append(solver.look().gap)
        solver.move()
    assert 1.0 <= solver.pace < 64.0
    assert solver.look().gap < 0.1 * gaps[0]


def test_extragradient_says_what_it_cannot_do():
    with pytest.raises(ValueError, match="needs a model that can soften"):
        StructuredSVC(Ranking(), solver="extragradient").fit(*rankings())
    with pytest.raises(ValueError, match="geometry must be 'entropic' for chains"):
        StructuredSVC(ChainModel(), solver="extragradient", geometry="euclidean").fit(*chains())


def attracting_graphs(seed=0):
    X, Y = graphs(n=5, seed=seed, edge_features=2)
    return [(x, edges, np.abs(features)) for x, edges, features in X], Y


ATTRACTING = {
    "graph": (GraphModel(attractive=True), *attracting_graphs()),
    "full": (MultilabelModel("full", attractive=True), *tags(n=8)),
    "tree": (MultilabelModel("tree", attractive=True), *tags(n=8)),
    "none": (MultilabelModel(), *tags(n=8)),
}


@pytest.mark.parametrize("name", ATTRACTING)
@pytest.mark.parametrize("radius", [None, 0.5])
@pytest.mark.parametrize("fixed_step", [False, True])
def test_extragradient_on_cuts_solves_the_problem_of_edges_that_attract(name, radius, fixed_step):
    """The optimum over those weights, with all labelings listed, by another solver."""
    import cvxpy as cp

    model, X, Y = ATTRACTING[name]
    lam = 0.3
    clf = StructuredSVC(
        model, lam=lam, solver="extragradient", geometry="euclidean", radius=radius,
        fixed_step=fixed_step, atol=0.03, max_iter=50 if fixed_step else 600,
    ).fit(X, Y)  # fmt: skip
    fitted = clf.model_
    w = cp.Variable(fitted.size)
    hinges = []
    for x, y in zip(X, Y, strict=True):
        labelings = list(fitted.labelings(x))
        phi = np.array([fitted.joint_feature(x, other) for other in labelings])
        losses = np.array([fitted.loss(x, y, other) for other in labelings])
        hinges.append(cp.max(losses + (phi - fitted.joint_feature(x, y)) @ w))
    first = fitted.size - fitted.split(np.zeros(fitted.size))["edges"].size
    V = [w[k : k + 4] for k in range(first, fitted.size, 4)]
    rules = [v[0] + v[3] >= v[1] + v[2] for v in V]
    goal = sum(hinges) / len(X)
    if radius is None:
        goal += lam / 2 * cp.sum_squares(w)
    else:
        rules.append(cp.norm(w) <= radius)
    best = cp.Problem(cp.Minimize(goal), rules).solve(solver="CLARABEL")
    assert clf.bound_ <= best + 1e-7
    assert clf.objective_ >= best - 1e-7
    assert fixed_step or clf.status_.value == "solved"
    promised = clf.trace_["promised_gap"].astype(float)[1:]
    gaps = clf.trace_["gap_average"].astype(float)[1:]
    assert not fixed_step or (gaps <= promised * (1 + 1e-9)).all()
    attraction = [v[0] + v[3] - v[1] - v[2] for v in clf.coef_[first:].reshape(-1, 4)]
    assert min(attraction, default=0.0) >= -1e-12
    assert set(fitted.inference_) <= {"independent", "tree", "min-cut"}
    assert certify(clf, X, Y).holds


def test_model_files_keep_that_edges_attract(tmp_path):
    model, X, Y = ATTRACTING["full"]
    clf = StructuredSVC(
        model, lam=1.0, solver="extragradient", geometry="euclidean", atol=0.1
    ).fit(X, Y)  # fmt: skip
    save(clf, tmp_path / "model.cornerstep")
    back = load(tmp_path / "model.cornerstep")
    assert back.model_.attractive
    assert certify(back, X, Y).holds
    back.coef_ = back.coef_.copy()
    back.model_.split(back.coef_)["edges"][:, 0, 0] -= 10.0
    assert any("allows" in problem for problem in certify(back, X, Y).problems)


def test_what_cannot_be_a_cut_is_refused_with_what_can():
    X, Y = graphs(n_labels=3, edge_features=2)
    soft: dict[str, Any] = {"solver": "extragradient", "geometry": "euclidean"}
    with pytest.raises(ValueError, match=r"attractive=True.*not tight; solver='bcfw' takes any"):
        StructuredSVC(GraphModel(), **soft).fit(X, Y)
    with pytest.raises(ValueError, match=r"attractive=True.*not tight; solver='bcfw' takes any"):
        StructuredSVC(MultilabelModel("full"), **soft).fit(*tags())
    with pytest.raises(ValueError, match="attractive=True needs two labels, got 3"):
        StructuredSVC(GraphModel(attractive=True), **soft).fit(X, Y)
    with pytest.raises(ValueError, match="attractive=True needs edge features >= 0"):
        StructuredSVC(GraphModel(attractive=True), **soft).fit(*graphs(edge_features=2))
    with pytest.raises(ValueError, match="geometry must be 'euclidean' for graphs and tags"):
        StructuredSVC(GraphModel(attractive=True), solver="extragradient").fit(*graphs())
    with pytest.raises(ValueError, match="solver must be 'extragradient', got 'bcfw'"):
        StructuredSVC(GraphModel(attractive=True)).fit(*graphs())


def test_extragradient_does_not_debug_what_only_kernels_soften():
    with pytest.raises(ValueError, match="with debug=False, chains"):
        StructuredSVC(ChainModel(), solver="extragradient", debug=True).fit(*chains())


@pytest.mark.parametrize("seed", range(5))
def test_sum_product_equals_brute_force(seed):
    X, Y = chains(n=4, seed=seed)
    fast, slow = both_kinds(ChainModel(biases=True), X, Y)
    rng = np.random.default_rng(seed)
    w, temperature = 3 * rng.standard_normal(fast.size), 0.7
    image, losses = fast.prox("entropic", [(w, 0.5, 0.3), (w, 0.5, 0.4)])
    expected, lost = np.zeros(fast.size), 0.0
    for i, x in enumerate(X):
        every = list(slow.model.labelings(x))
        features = np.array([slow.feature(i, y).dense() for y in every])
        costs = np.array([slow.loss(i, y) for y in every])
        p = np.exp(features @ w + temperature * costs)
        p /= p.sum()
        expected += slow.truth(i).dense() - p @ features
        lost += p @ costs
    np.testing.assert_allclose(image, expected, atol=1e-10)
    assert losses == pytest.approx(lost)


def test_sum_product_survives_enormous_scores():
    X, Y = chains(n=6)
    fast, slow = both_kinds(ChainModel(), X, Y)
    rng = np.random.default_rng(0)
    w = rng.standard_normal(fast.size)
    image, losses = fast.prox("entropic", [(w, 1e5, 1e5)])
    corners = slow.corners(w)  # the limit of no entropy
    np.testing.assert_allclose(image, corners.image, atol=1e-6)
    assert losses == pytest.approx(corners.losses, abs=1e-6)


@pytest.mark.parametrize("size", [1.0, 1e8, 1e15])
def test_marginals_lie_in_the_marginal_polytope_whatever_the_scores(size):
    from cornerstep.structured.compiled.sum_product import backward_forward

    rng = np.random.default_rng(0)
    theta, links = size * rng.standard_normal((7, 4)), size * rng.standard_normal((4, 4))
    marginals, pairs = np.empty((7, 4)), np.empty((4, 4))
    plain = getattr(backward_forward, "py_func", backward_forward)  # only kernels call it compiled
    plain(theta, 7, links, np.empty((7, 4)), marginals, pairs, np.empty(4))
    np.testing.assert_allclose(marginals.sum(axis=1), 1, atol=1e-12)
    np.testing.assert_allclose(pairs.sum(axis=1), marginals[:-1].sum(axis=0), atol=1e-12)
    np.testing.assert_allclose(pairs.sum(axis=0), marginals[1:].sum(axis=0), atol=1e-12)


@pytest.mark.parametrize("seed", range(10))
def test_matching_projections_are_optimal(seed):
    import cvxpy as cp

    rng = np.random.default_rng(seed)
    k = int(rng.integers(2, 6))
    scores = rng.standard_normal((k, k)) * 3
    model = MatchingModel()
    z = cp.Variable((k, k), nonneg=True)
    rules = [cp.sum(z, axis=0) == 1, cp.sum(z, axis=1) == 1]
    nearest, soft = model.project(scores[:, :, None], scores), model.soften(scores)
    for point in (nearest, soft):
        np.testing.assert_allclose(point.sum(axis=0), 1, atol=1e-9)
        np.testing.assert_allclose(point.sum(axis=1), 1, atol=1e-9)
        assert point.min() >= 0
    best = cp.Problem(cp.Minimize(cp.sum_squares(z - scores)), rules).solve(solver="CLARABEL")
    assert np.square(nearest - scores).sum() == pytest.approx(best, rel=1e-6)
    goal = cp.Maximize(cp.sum(cp.multiply(scores, z)) + cp.sum(cp.entr(z)))
    best = cp.Problem(goal, rules).solve(solver="CLARABEL")
    entropy = -(soft * np.log(np.maximum(soft, 1e-300))).sum()
    assert (scores * soft).sum() + entropy == pytest.approx(best, rel=1e-5)


# ---------------------------------------------------------------- options


@pytest.mark.parametrize("sampling", ["permuted", "uniform", "gap"])
@pytest.mark.parametrize("cache_passes", [0, 3])
def test_samplings_and_cache_reach_the_tolerance(sampling, cache_passes):
    X, Y = chains(n=20)
    clf = StructuredSVC(
        ChainModel(), sampling=sampling, cache_passes=cache_passes, atol=5e-3, random_state=0
    ).fit(X, Y)
    assert clf.status_.value == "solved"
    assert clf.gap_ <= 5e-3


def test_cached_passes_save_oracle_calls():
    model, X, Y = PROBLEMS["ranking"]
    plain, cached = (
        StructuredSVC(model, lam=0.01, cache_passes=k, atol=1e-2, random_state=0).fit(X, Y)
        for k in (0, 10)
    )
    assert cached.n_oracle_calls_ < plain.n_oracle_calls_


@pytest.mark.parametrize("solver", ["bcfw", "fw", "extragradient"])
def test_workers_do_not_change_the_model(solver):
    X, Y = chains(n=150)
    models = [
        StructuredSVC(
            ChainModel(), solver=solver, n_jobs=n_jobs, max_iter=5, check_every=1, random_state=0
        ).fit(X, Y)
        for n_jobs in (None, 2, 3)
    ]
    for model in models[1:]:
        np.testing.assert_array_equal(model.coef_, models[0].coef_)
        assert model.gap_ == models[0].gap_
        for one, other in zip(model.predict(X * 2), models[0].predict(X * 2), strict=True):
            np.testing.assert_array_equal(one, other)


def test_processes_do_not_change_the_model():
    model, X, Y = PROBLEMS["matching"]
    X, Y = X * 10, Y * 10
    one, two = (
        StructuredSVC(model, solver="fw", n_jobs=n_jobs, max_iter=3).fit(X, Y) for n_jobs in (1, 2)
    )
    np.testing.assert_array_equal(one.coef_, two.coef_)


@pytest.mark.parametrize("solver", [*RULES, "fw"])
@pytest.mark.parametrize("name", ["chain", "ranking"])
def test_warm_start_keeps_the_dual_state(solver, name):
    model, X, Y = PROBLEMS[name]
    clf = StructuredSVC(
        model, C=1.0, solver=solver, atol=1e-2, warm_start=True, averaging=False, random_state=0,
        max_iter=2000, check_every=1,
    ).fit(X, Y)  # fmt: skip
    value, dual, first = clf.objective_, clf.bound_, clf.n_iter_
    clf.fit(X, Y)
    assert clf.trace_["value"][0] == pytest.approx(value, abs=1e-9)
    assert clf.bound_ >= dual - 1e-9
    assert clf.trace_["iteration"][-1] == 0
    clf.set_params(C=1.2).fit(X, Y)
    assert clf.gap_ <= 1e-2
    assert clf.n_iter_ < max(first, 3)
    clf.fit(X[:-1], Y[:-1])  # other data: from scratch
    assert clf.gap_ <= 1e-2


def test_regularization_path():
    X, Y = chains(n=20)
    path = regularization_path(
        StructuredSVC(ChainModel(), atol=1e-2, random_state=0), X, Y, [1, 0.1, 10]
    )
    assert (path.column("gap_") <= 1e-2).all()
    np.testing.assert_allclose(path.column("lam_"), 1 / (20 * path.values))
    assert len({id(estimator.coef_) for estimator in path.estimators}) == 3
    with pytest.raises(ValueError, match="lam"):
        regularization_path(StructuredSVC(ChainModel(), lam=0.1), X, Y, [1])


def test_trace_scores_both_models():
    X, Y = chains(n=20)
    clf = StructuredSVC(ChainModel(), atol=1e-3, check_every=5, max_iter=20, random_state=0)
    clf.fit(X, Y, validation=(X, Y))
    trace = clf.trace_
    full = np.isfinite(trace["gap"])
    assert full[[0, 5, 10]].all()
    assert not full[[1, 2, 3]].any()
    for column in ("objective_last", "objective_average", "score_last", "score_average"):
        assert np.isfinite(trace[column][full].astype(float)).all()
    assert trace["score_average"][-1] == clf.score(X, Y)
    assert trace["objective_average"][-1] == pytest.approx(clf.objective_)
    last = clone(clf).set_params(averaging=False).fit(X, Y)
    assert last.trace_["objective_last"][-1] == pytest.approx(last.objective_)
    assert last.objective_ != clf.objective_


def test_tolerance_does_not_scale_with_c():
    X, Y = chains(n=20)
    for C in (0.1, 1.0, 10.0):
        clf = StructuredSVC(ChainModel(), C=C, atol=0.02, random_state=0, max_iter=5000).fit(X, Y)
        assert clf.gap_ <= 0.02
        assert clf.lam_ == pytest.approx(1 / (C * 20))
    relative = StructuredSVC(ChainModel(), atol=0.0, tol=0.05, random_state=0).fit(X, Y)
    assert relative.relative_gap_ <= 0.05


def test_node_weights_scale_the_loss():
    X, Y = chains(n=12)
    plain = StructuredSVC(ChainModel(normalize=False), lam=0.2, random_state=0).fit(X, Y)
    ones = [(x, np.ones(len(x))) for x in X]
    same = StructuredSVC(ChainModel(normalize=False), lam=0.2, random_state=0).fit(ones, Y)
    np.testing.assert_array_equal(plain.coef_, same.coef_)
    zero = [(x, np.zeros(len(x))) for x in X]
    assert not StructuredSVC(ChainModel(), lam=0.2).fit(zero, Y).coef_.any()


def test_repeated_examples_do_not_move_the_optimum():
    model, X, Y = PROBLEMS["chain"]
    once, twice = (
        StructuredSVC(model, lam=0.1, solver="bcfw-pairwise", atol=1e-4, random_state=0).fit(
            X * k, Y * k
        )
        for k in (1, 2)
    )
    assert once.objective_ == pytest.approx(twice.objective_, abs=2e-4)


def test_relabelling_does_not_matter():
    X, Y = chains(n=12)
    names = np.array(["x", "b", "m"])
    options: dict[str, Any] = {
        "lam": 0.1, "atol": 1e-4, "solver": "bcfw-pairwise", "random_state": 0,
    }  # fmt: skip
    one = StructuredSVC(ChainModel(), **options).fit(X, Y)
    other = StructuredSVC(ChainModel(), **options).fit(X, [names[y] for y in Y])
    assert one.objective_ == pytest.approx(other.objective_, abs=2e-4)
    assert other.predict(X)[0].dtype == names.dtype


def test_grid_search_over_sequences():
    X, Y = chains(n=12)
    search = GridSearchCV(
        StructuredSVC(ChainModel(), atol=0.05, random_state=0), {"C": [0.1, 1]}, cv=3
    )
    assert search.fit(X, Y).best_score_ > 0.3


def test_sparse_multiclass():
    X, y = rows()
    one = StructuredSVC(MulticlassModel(), random_state=0).fit(X, y)
    other = StructuredSVC(MulticlassModel(), random_state=0).fit(sp.csr_matrix(X), y)
    np.testing.assert_allclose(one.coef_, other.coef_, atol=1e-12)


class SparseRanking(Ranking):
    """The same with sparse joint features of many dimensions."""

    def joint_feature(self, x, y):
        return sp.csr_array(
            (super().joint_feature(x, y), (np.zeros(4, int), [0, 10, 500, 99_999])),
            shape=(1, 100_000),
        )

    def loss_augmented_decode(self, x, y, w):
        return Ranking().loss_augmented_decode(x, y, w[[0, 10, 500, 99_999]])


def test_sparse_joint_features_of_ones_own():
    X, Y = rankings()
    for solver in SOLVERS:
        one, other = (
            StructuredSVC(model, solver=solver, max_iter=5, random_state=0).fit(X, Y)
            for model in (Ranking(), SparseRanking())
        )
        np.testing.assert_allclose(one.coef_, other.coef_[[0, 10, 500, 99_999]], atol=1e-12)


def test_limits_keep_the_certificate():
    X, Y = chains(n=12)
    with pytest.warns(ConvergenceWarning, match="stopped at a gap of"):
        clf = StructuredSVC(ChainModel(), atol=0.0, max_iter=3, random_state=0).fit(X, Y)
    assert clf.status_.value == "iteration limit"
    assert clf.objective_ == pytest.approx(primal(clf.model_, X, Y, clf.coef_, clf.lam_), abs=1e-9)
    clf = StructuredSVC(ChainModel(), atol=0.0, time_limit=0.0).fit(X, Y)
    assert clf.status_.value == "time limit"


@pytest.mark.parametrize("averaging", [False, True])
@pytest.mark.parametrize("max_iter", [1, 7, 10, 13])
def test_subgradients_return_the_last_point_or_the_average_of_all(averaging, max_iter):
    """Whatever looks have seen on the way: a short run has looked at w = 0 only."""
    X, Y = chains(n=12)
    options = {"solver": "subgradient", "lam": 0.1, "atol": 0.0, "averaging": averaging}
    clf = StructuredSVC(ChainModel(), max_iter=max_iter, random_state=0, **options).fit(X, Y)
    examples, seed = both_kinds(ChainModel(), X, Y)[0], np.random.RandomState(0)
    rng = np.random.default_rng(seed.randint(np.iinfo(np.int32).max))
    total, numbers, points = np.zeros(examples.size), np.zeros(2), []
    for _ in range(max_iter):
        for i in rng.permutation(examples.n):
            examples.subgradient_sweep(np.array([i]), 0.1, total, np.zeros(examples.size), numbers)
            points.append(total / (0.1 * numbers[0]))
    mean = np.average(points, axis=0, weights=np.arange(1, len(points) + 1))
    np.testing.assert_allclose(clf.coef_, mean if averaging else points[-1], atol=1e-12)


def test_interrupt_keeps_the_model():
    class Impatient(Ranking):
        calls = 0

        def loss_augmented_decode(self, x, y, w):
            Impatient.calls += 1
            if Impatient.calls == 30:
                raise KeyboardInterrupt
            return super().loss_augmented_decode(x, y, w)

    X, Y = rankings()
    clf = StructuredSVC(Impatient(), atol=0.0, random_state=0).fit(X, Y)
    assert clf.status_.value == "interrupted"
    assert clf.objective_ == pytest.approx(primal(Ranking(), X, Y, clf.coef_, clf.lam_), abs=1e-9)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"C": 0}, "C must be a positive number or None, got 0"),
        ({"lam": -1.0}, "lam must be a positive number or 'auto', got -1.0"),
        ({"solver": "magic"}, "solver must be one of bcfw"),
        ({"sampling": "some"}, "sampling must be one of permuted"),
        ({"geometry": "flat"}, "geometry must be one of entropic"),
        ({"tol": -1}, "tol must be a number >= 0"),
        ({"check_every": 0}, "check_every must be an integer >= 1, got 0"),
        ({"cache_passes": 1.5}, "cache_passes must be an integer >= 0"),
        ({"averaging": "yes"}, "averaging must be True or False, got 'yes'"),
        ({"n_jobs": 0}, "n_jobs must be None or an integer other than 0, got 0"),
        ({"radius": 1.0}, "radius needs solver='extragradient'"),
        ({"solver": "subgradient", "sampling": "gap"}, "sampling must be 'permuted'"),
    ],
)
def test_parameter_errors(options, message):
    with pytest.raises(ValueError, match=message):
        StructuredSVC(ChainModel(), **options).fit(*chains())


def test_model_must_be_a_model():
    with pytest.raises(TypeError, match="model must be a StructuredModel"):
        StructuredSVC("chain").fit(*chains())
    model = ChainModel()
    StructuredSVC(model).fit(*chains())
    assert not hasattr(model, "labels_")  # the given model is not changed
    assert isinstance(clone(StructuredSVC(model)).model, StructuredModel)


def test_blocks_solve_what_the_optimiser_solves_on_a_product_of_simplices():
    from cornerstep import minimize
    from cornerstep.domains import Product, Simplex
    from cornerstep.objectives import Quadratic

    model, X, Y = PROBLEMS["ranking"]
    lam, n = 0.1, len(X)
    psi, losses = [], []
    for x, y in zip(X, Y, strict=True):
        for other in model.labelings(x):
            psi.append(model.joint_feature(x, y) - model.joint_feature(x, other))
            losses.append(model.loss(x, y, other))
    M = np.array(psi).T / (lam * n)
    domain = Product([Simplex(6)] * n)
    result = minimize(
        Quadratic(lam * M.T @ M, -np.array(losses) / n), domain, method="block", tol=1e-4
    )
    clf = StructuredSVC(
        model, lam=lam, solver="bcfw", averaging=False, atol=1e-4, max_iter=5000, random_state=0
    ).fit(X, Y)
    assert clf.bound_ == pytest.approx(-result.value, abs=2e-4)


WARM = """
import numpy as np
from cornerstep import StructuredSVC
from cornerstep.structured import ChainModel

rng = np.random.default_rng(0)
Y = [rng.integers(0, 4, 6) for _ in range(5)]
X = [rng.standard_normal((6, 3)) for _ in Y]
clf = StructuredSVC(
    ChainModel(), C=100, solver="bcfw-pairwise", atol=1e-6, max_iter=40, warm_start=True,
    random_state=0,
)
for C in (100, 150):
    clf.set_params(C=C).fit(X, Y)
"""


def test_a_warm_start_has_room_for_the_planes_of_the_fit_before():
    """Without the compiler, which does not look whether a place is inside an array."""
    environment = {**os.environ, "NUMBA_DISABLE_JIT": "1", "PYTHONWARNINGS": "ignore"}
    done = subprocess.run(
        [sys.executable, "-c", WARM], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
