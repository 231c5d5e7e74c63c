"""The textbook forms of boosting against the published algorithms, iterate by iterate."""

from typing import Any

import numpy as np
import pytest
from benchmarks.suites.boosting_worst_case import as_ensemble, worst_case
from sklearn.base import BaseEstimator, ClassifierMixin

from cornerstep import SoftMarginBoostingClassifier, Status
from reference import boosting as published

pytestmark = pytest.mark.filterwarnings("ignore:SoftMargin.* stopped")  # by the rounds
# Steps in closed form, roots of line searches and vertices of linear programs are exact on both
# sides, up to a rounding that the rounds carry on.  The reference's entropic program ends where its
# value, known to some 1e-14, does not rise any more: its weights are known to the square root.
EXACT, ENTROPIC = 1e-10, 1e-6
ROUNDS = 60
CASES = [
    ("lpboost", "short", EXACT),
    ("erlpboost", "short", ENTROPIC),
    ("cerlpboost", "short", EXACT),
    ("cerlpboost", "open-loop", EXACT),
    ("cerlpboost", "line-search", EXACT),
    ("mlpboost", "short", EXACT),
    ("mlpboost", "open-loop", EXACT),
    ("mlpboost", "line-search", EXACT),
]


def finite_set(seed, m=40, n=30):
    """Hypotheses with values in [-1, 1], better than chance; no two edges are equal."""
    rng = np.random.default_rng(seed)
    return np.clip(rng.normal(0.15, 0.5, (m, n)), -1, 1) * rng.uniform(0.5, 1, (m, n))


def stumps(seed, m=64):
    """The margins of all stumps on three features, no two the same."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(m, 3)).round(1)
    y = np.where(X[:, 0] + X[:, 1] + rng.normal(size=m) > 0, 1.0, -1.0)
    below = [column <= cut for column in X.T for cut in column]
    votes = [np.where(left, sign * y, -sign * y) for left in below for sign in (1, -1)]
    return np.unique(votes, axis=0).T


class Searching(ClassifierMixin, BaseEstimator):
    """A weak learner that answers the hypothesis of largest edge, of equal ones the first."""

    def __init__(self, members=None):
        self.members = members

    def fit(self, X, y, sample_weight):
        signed = np.where(y > 0, sample_weight, -sample_weight) / sample_weight.sum()
        values = np.array([member.values[X[:, 0].astype(int)] for member in self.members])
        self.best_ = self.members[published.largest_edge(values.T, signed)[0]]
        return self

    def predict(self, X):
        return (self.best_.predict(X) > 0).astype(int)


def textbook(A, solver, step, nu, eps, rounds, images, **more):
    return SoftMarginBoostingClassifier(
        solver, step=step, textbook=True, nu=nu / len(A), atol=eps, max_iter=rounds - 1,
        callback=lambda iterate: images.append(iterate.x.image) or False, **more,
    )  # fmt: skip


def fitted(A, solver, step, nu, eps, rounds=ROUNDS):
    """The textbook form on the same finite set, and the margins ``A w_t`` of its rounds."""
    X, y, members = as_ensemble(A)
    images: list[Any] = []
    clf = textbook(A, solver, step, nu, eps, rounds, images)
    clf.reweight(X, y, members, rated=True)
    weights = np.zeros(len(members))
    for vote, weight in zip(clf.estimators_, clf.estimator_weights_, strict=True):
        weights[members.index(vote.estimator)] = weight
    return clf, images, weights


def reference(A, solver, step, nu, eps, rounds=ROUNDS):
    more = (published.STEPS[step],) if solver in ("cerlpboost", "mlpboost") else ()
    return getattr(published, solver)(A, nu, eps, rounds, *more)


@pytest.mark.parametrize(("solver", "step", "close"), CASES)
@pytest.mark.parametrize("nu", [1, 4, 9.5, 20])
@pytest.mark.parametrize("seed", [0, 1])
def test_rounds_are_those_of_the_published_algorithm(solver, step, close, nu, seed):
    A, eps = finite_set(seed), 0.05
    course = reference(A, solver, step, nu, eps)
    clf, images, weights = fitted(A, solver, step, nu, eps)
    assert len(images) == len(course)
    soft_margins = [published.soft_margin(A @ w, nu) for w, _, _ in course]
    np.testing.assert_allclose(images, [A @ w for w, _, _ in course], atol=close)
    np.testing.assert_allclose(clf.trace_["soft_margin"], soft_margins, atol=close)
    edges = [published.largest_edge(A, d)[1] for _, d, _ in course]
    np.testing.assert_allclose(clf.trace_["edge"], edges, atol=close)
    if solver != "lpboost":
        np.testing.assert_allclose(clf.trace_["g"], [g for _, _, g in course], atol=close)
    if len(course) < ROUNDS:  # otherwise the best of all rounds is kept
        assert clf.status_ is Status.SOLVED
        np.testing.assert_allclose(weights, course[-1][0], atol=close)


@pytest.mark.parametrize(("solver", "step", "close"), CASES[1:5])
@pytest.mark.parametrize("nu", [6.4, 20])
def test_stumps_too(solver, step, close, nu):
    """Equal edges are equal on both sides.

    Linear programs have many solutions here, and are left out; of the entropic ones g and d are
    unique.
    """
    A, eps = stumps(0), 0.2
    course = reference(A, solver, step, nu, eps)
    X, y, members = as_ensemble(A)
    images: list[Any] = []
    learner = Searching(members)
    clf = textbook(A, solver, step, nu, eps, ROUNDS, images, weak_learner=learner).fit(X, y)
    assert len(images) == len(course)
    if solver != "erlpboost":
        expected = [np.sort(A @ w) for w, _, _ in course]
        np.testing.assert_allclose(np.sort(images), expected, atol=close)
    edges = [published.largest_edge(A, d)[1] for _, d, _ in course]
    np.testing.assert_allclose(clf.trace_["edge"], edges, atol=close)
    np.testing.assert_allclose(clf.trace_["g"], [g for _, _, g in course], atol=close)


@pytest.mark.parametrize("m", [10, 40, 100])
@pytest.mark.parametrize(("solver", "step"), [case[:2] for case in CASES])
def test_the_worst_case_of_lpboost(m, solver, step):
    """It goes through all of m/2 + 1 hypotheses, where the others need two."""
    A = worst_case(m)
    clf, images, _ = fitted(A, solver, step, 1, 0.01, rounds=2000)
    assert clf.status_ is Status.SOLVED
    assert len(images) == len(reference(A, solver, step, 1, 0.01, rounds=2000))
    if solver == "lpboost":
        assert len(images) == m // 2 + 1
    elif step == "line-search" or solver != "cerlpboost":
        assert len(images) == 2
