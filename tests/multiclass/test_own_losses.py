"""Losses given by their oracles: the checker, optima of cvxpy, certificates, refusals."""

from __future__ import annotations

import pickle
import warnings
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_iris
from sklearn.exceptions import ConvergenceWarning

from cornerstep import MulticlassSVC, certify, regularization_path, save
from cornerstep.files.model_file import ModelFileError
from cornerstep.losses import Loss, MaxHinge, SimplexLoss, TopK, Usunier, check_loss
from support.loss_problems import draw as draw_loss
from support.loss_problems import every_kind
from support.multiclass_problems import LOSS_KINDS, TIGHT, M, draw, optimum
from support.own_losses import Groups, OnlyArgmax, RootSquare, Round, Wrapped

PLAIN = ("fw", "fw-open-loop", "projected-gradient")
COSTS = 3 * np.random.default_rng(1).random((M, M))
OWN = [RootSquare(), RootSquare(COSTS), Groups([0, 0, 1, 1, 2]), Groups([0, 1, 1, 0, 1], COSTS)]
OWN = [*OWN, Round(0.6)]


# The checker


@every_kind
@pytest.mark.parametrize("m", [2, 3, 7])
def test_the_losses_of_the_library_pass(kind, m):
    loss = draw_loss(kind, np.random.default_rng(m), m).loss
    for each in (loss, Wrapped(loss), OnlyArgmax(loss)):
        check_loss(each, m)


@pytest.mark.parametrize("loss", OWN)
def test_own_losses_pass(loss):
    check_loss(loss, M, n_trials=30)


class Broken(SimplexLoss):
    """Max hinge with one of its oracles replaced."""

    def __init__(self, **oracles):
        for name, oracle in oracles.items():
            setattr(self, f"_{name}", oracle)

    def argmax(self, z, labels):
        return self._argmax(z, labels) if hasattr(self, "_argmax") else MaxHinge().argmax(z, labels)

    def maximum(self, z, labels):
        return self._maximum(z, labels) if hasattr(self, "_maximum") else super().maximum(z, labels)

    def projection(self, points, labels):
        near = MaxHinge().projection(points, labels)
        return self._projection(near) if hasattr(self, "_projection") else near


def second_best(z, labels):
    beta = np.zeros_like(z)
    beta[np.arange(len(z)), np.argsort(-z, axis=1)[:, 1]] = 1.0
    return np.where((beta * z).sum(axis=1, keepdims=True) > 0, beta, 0.0)


def of_the_first_row(z, labels):
    return np.repeat(MaxHinge().argmax(z[:1], labels[:1]), len(z), axis=0)


@pytest.mark.parametrize(
    ("oracles", "message"),
    [
        ({"argmax": second_best}, "^argmax is probably wrong: at z = "),
        ({"argmax": of_the_first_row}, "is probably wrong"),
        ({"argmax": lambda z, y: (z > 0) * np.abs(z)}, "is probably wrong"),
        ({"maximum": lambda z, y: z.max(axis=1) + 0.1 * (z**2).max(axis=1)}, "^argmax or maximum"),
        ({"maximum": lambda z, y: 2 * z.max(axis=1)}, "^argmax or maximum is probably wrong"),
        ({"projection": lambda near: 0.5 * near}, "^projection .*: there is a dual point"),
        ({"projection": lambda near: 2.0 * near}, "^projection .*: it returns points that are not"),
        ({"projection": lambda near: near + 0.1}, "^projection .*: .* do not sum to 0"),
    ],
)
def test_the_checker_names_the_wrong_oracle(oracles, message):
    check_loss(Broken(), 4)
    with pytest.raises(AssertionError, match=message):
        check_loss(Broken(**oracles), 4)


class Negative(SimplexLoss):
    def argmax(self, z, labels):
        beta = np.zeros_like(z)
        hidden = z.copy()
        hidden[np.arange(len(z)), labels] = -np.inf
        beta[np.arange(len(z)), hidden.argmax(axis=1)] = 1.0
        return beta


def test_a_loss_below_zero_is_refused_by_checker_and_fit():
    X, y = load_iris(return_X_y=True)
    for refused in (lambda: check_loss(Negative(), 3), lambda: MulticlassSVC(Negative()).fit(X, y)):
        with pytest.raises(ValueError, match=r"^Negative\(\) must be a loss >= 0, got -1 at"):
            refused()


# Values and solvers


@pytest.mark.parametrize("smoothing", [0.0, 0.3])
@pytest.mark.parametrize("kind", LOSS_KINDS)
def test_hidden_losses_are_those_of_the_library(kind, smoothing):
    """Vertices at ties may differ, values and optima may not."""
    problem = draw(kind, smoothing)
    hidden = {"loss": Wrapped(problem.loss), "costs": None, "rho": None}
    best = optimum(kind, smoothing)
    for solver in ("auto", "envelope", "fw-corrective"):
        model = problem.fit(solver=solver, tol=1e-4, max_iter=5000, **hidden)
        assert model.status_.value == "solved"
        assert model.bound_ <= best * (1 + 1e-8)
        assert best <= model.objective_ * (1 + 1e-8)
        assert problem.primal(model.coef_) == pytest.approx(model.objective_, rel=1e-9)
        assert certify(model, problem.X, problem.y, problem.weight).holds
    for solver in PLAIN:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            own, given = (
                problem.fit(solver=solver, max_iter=15, tol=0.0, **parameters)
                for parameters in (hidden, {})
            )
        assert own.objective_ == pytest.approx(given.objective_, rel=1e-9)
        assert own.bound_ == pytest.approx(given.bound_, rel=1e-9, abs=1e-9)
        assert certify(own, problem.X, problem.y, problem.weight).holds


def phi(cp, loss, z, y):
    """The loss of margins, for cvxpy."""
    if isinstance(loss, RootSquare):
        above = cp.Variable(M)
        return cp.norm(above), [above >= 0, above >= z]
    if isinstance(loss, Groups):
        others = [g for g in np.unique(loss.groups) if g != loss.groups[y]]
        means = [
            cp.sum(z[np.flatnonzero(loss.groups == g)]) / sum(loss.groups == g) for g in others
        ]
        return cp.maximum(0, *means), []
    polar = cp.Variable(M)  # the size of a projection onto a cone is the distance to the polar one
    return loss.radius * cp.norm(z + polar), [polar >= polar[y]]


@pytest.mark.parametrize("loss", OWN, ids=repr)
def test_optimum_of_cvxpy(loss):
    cp = pytest.importorskip("cvxpy")
    problem = draw("max-hinge")
    W = cp.Variable((M, problem.X.shape[1]))
    total: Any = 0.5 * cp.sum_squares(W)
    constraints: list[Any] = []
    deltas = loss.deltas(problem.y, M)
    for x, y, delta, scale in zip(problem.X, problem.y, deltas, problem.scales, strict=True):
        scores = W @ x
        value, needed = phi(cp, loss, scores - scores[y] + delta, y)
        total, constraints = total + scale * value, constraints + needed
    accurate = TIGHT | {"tol_gap_rel": 1e-9, "tol_feas": 1e-9}
    best = cp.Problem(cp.Minimize(total), constraints).solve(**accurate)
    for solver in ("auto", "fw-corrective", "fw"):
        model = problem.fit(loss=loss, solver=solver, tol=1e-4, max_iter=20_000)
        assert model.status_.value == "solved"
        assert model.bound_ <= best * (1 + 1e-8)
        assert best <= model.objective_ * (1 + 1e-8)
        assert certify(model, problem.X, problem.y, problem.weight).holds
        if solver != "fw":
            model.coef_ = 1.1 * model.coef_
            assert not certify(model, problem.X, problem.y, problem.weight).holds


@pytest.mark.parametrize("loss", [RootSquare(), Round(0.6)])
@pytest.mark.parametrize("solver", ["fw-corrective", "fw"])
def test_kernels(loss, solver):
    problem = draw("max-hinge")
    options = {"loss": loss, "solver": solver, "tol": 1e-3, "max_iter": 5000}
    linear, kernel = (problem.fit(data, **options) for data in ("dense", "gram"))
    assert linear.bound_ <= kernel.objective_
    assert kernel.bound_ <= linear.objective_
    assert certify(kernel, problem.X @ problem.X.T, problem.y, problem.weight).holds


def test_what_auto_means():
    problem = draw("max-hinge")
    for loss, name in [(Round(), "envelope"), (RootSquare(), "fw-corrective")]:
        auto, named = (problem.fit(loss=loss, solver=solver) for solver in ("auto", name))
        np.testing.assert_array_equal(auto.coef_, named.coef_)


# State


@pytest.mark.parametrize("solver", ["fw", "fw-corrective", "envelope"])
@pytest.mark.parametrize("smoothing", [0.0, 0.2])
def test_warm_starts(solver, smoothing):
    problem = draw("max-hinge", smoothing)
    model = problem.estimator(loss=Round(0.5), solver=solver, warm_start=True, max_iter=3000)
    model.fit(problem.X, problem.y)
    first = model.n_iter_
    model.fit(problem.X, problem.y)
    assert model.n_iter_ < max(first, 2)
    model.loss.radius = 0.25  # another set: the dual points kept are outside
    model.fit(problem.X, problem.y)
    fresh = problem.estimator(loss=Round(0.25), solver=solver, max_iter=3000)
    fresh.fit(problem.X, problem.y)
    assert model.bound_ <= fresh.objective_
    assert fresh.bound_ <= model.objective_


def test_paths_and_pickles():
    problem = draw("max-hinge")
    path = regularization_path(problem.estimator(loss=Round()), problem.X, problem.y, [0.1, 1])
    assert (path.column("relative_gap_") <= 1e-3).all()
    model = problem.fit(loss=Groups([0, 0, 1, 1, 2]))
    again = pickle.loads(pickle.dumps(model))
    scores = (each.decision_function(problem.X) for each in (model, again))
    np.testing.assert_array_equal(*scores)
    assert certify(again, problem.X, problem.y, problem.weight).holds


# What is refused


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"solver": "block"}, r"^solver must be one of auto, .* with loss=RootSquare\(\), got"),
        ({"solver": "envelope"}, "^solver='envelope' needs a loss with a projection, which Root"),
        ({"smoothing": 0.1}, "^smoothing=0.1 needs a loss with a projection, which RootSquare"),
        ({"checkpoint": "there"}, r"^checkpoint must be None with loss=RootSquare\(\): "),
        ({"costs": np.ones((3, 3))}, r"^costs must be None with loss=RootSquare\(\)"),
    ],
)
def test_what_it_cannot_have(parameters, message):
    with pytest.raises(ValueError, match=message):
        MulticlassSVC(RootSquare(), **parameters).fit(*load_iris(return_X_y=True))


def test_other_places_of_rows(tmp_path):
    X, y = load_iris(return_X_y=True)
    np.save(tmp_path / "X.npy", X)
    refused = r"^loss must be one of the library's for {}, got RootSquare\(\)$"
    with pytest.raises(ValueError, match=refused.format("rows on disk")):
        MulticlassSVC(RootSquare()).fit(np.load(tmp_path / "X.npy", mmap_mode="r"), y)
    arrays = pytest.importorskip("array_api_strict")
    with pytest.raises(ValueError, match=refused.format("arrays of array_api_strict")):
        MulticlassSVC(RootSquare()).fit(arrays.asarray(X), y)
    dask = pytest.importorskip("dask.array")
    with pytest.raises(ValueError, match=refused.format("Dask arrays")):
        MulticlassSVC(RootSquare()).fit(dask.from_array(X), dask.from_array(y))


def test_model_files_hold_no_code(tmp_path):
    model = MulticlassSVC(RootSquare()).fit(*load_iris(return_X_y=True))
    with pytest.raises(ModelFileError, match=r"^loss holds an object of type RootSquare,"):
        save(model, tmp_path / "model.cornerstep")


@pytest.mark.parametrize("base", [Loss, MaxHinge, TopK])
@pytest.mark.parametrize("name", ["value", "argmax", "project", "of_margins", "deltas", "_values"])
def test_what_compiled_code_would_not_ask_is_refused(base, name):
    message = f"^Mine must not redefine {name}, which compiled code would not ask: derive"
    with pytest.raises(TypeError, match=message):
        type("Mine", (base,), {name: lambda self, *given: 0.0})
    mixin = type("Mixin", (), {name: lambda self, *given: 0.0})
    with pytest.raises(TypeError, match=message):
        type("Mine", (mixin, base), {})


def test_losses_may_choose_weights_and_costs():
    class Half(Usunier):
        whole = True

        def __init__(self):
            super().__init__(2)

        def describe(self):
            return "its own"

    X, y = load_iris(return_X_y=True)
    own, given = (MulticlassSVC(loss, random_state=0).fit(X, y) for loss in (Half(), TopK(2)))
    np.testing.assert_array_equal(own.coef_, given.coef_)


@pytest.mark.parametrize(
    ("argmax", "message"),
    [
        (lambda z, y: z[:, :1], r"^argmax of Broken\(\) must return finite numbers of shape \("),
        (lambda z, y: np.full(z.shape, np.nan), "^argmax .* finite numbers .*, got some that are"),
        (lambda z, y: -np.abs(z), r"^argmax of Broken\(\) must return numbers >= 0, got -"),
        (lambda z, y: np.zeros(z.shape), r"^Broken\(\) must be a loss that is not always 0"),
        (lambda z, y: z.__imul__(2), "read-only"),
    ],
)
def test_bad_answers(argmax, message):
    X, y = load_iris(return_X_y=True)
    with pytest.raises(ValueError, match=message):
        MulticlassSVC(Broken(argmax=argmax)).fit(X, y)


def test_argmax_must_be_there():
    with pytest.raises(NotImplementedError, match=r"^SimplexLoss must define argmax\(z, labels\)"):
        MulticlassSVC(SimplexLoss()).fit(*load_iris(return_X_y=True))
