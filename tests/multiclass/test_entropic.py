"""Softmax and top-k entropy: against other solvers, probabilities, certificates."""

from __future__ import annotations

import warnings
from typing import Any

import cvxpy as cp
import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import load_digits, load_iris
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression

from cornerstep import MulticlassSVC, Status, certify, load, save
from cornerstep.losses import Softmax, TopKEntropy
from cornerstep.multiclass.arrays.losses import ArrayLoss


def scores_of(rng: Any, m: int) -> Any:
    scores = rng.standard_normal(m)
    scores[: m // 2] = np.round(scores[: m // 2])  # ties
    return scores


@pytest.mark.parametrize("k", [1, 2, 3, 5])
@pytest.mark.parametrize("mu", [0.3, 1.0, 4.0])
@pytest.mark.parametrize("margin", [0.0, 1.5])
def test_the_envelope_is_the_maximum(k: int, mu: float, margin: float) -> None:
    loss = Softmax(margin) if k == 1 else TopKEntropy(k, margin)
    for m in (k + 1, k + 4):
        rng = np.random.default_rng(m)
        scores, y = scores_of(rng, m), int(rng.integers(m))
        z = scores - scores[y] + margin * (np.arange(m) != y)
        beta = cp.Variable(m)
        others = [beta[j] for j in range(m) if j != y]
        caps = [b <= cp.sum(cp.hstack(others)) / k for b in others]
        value = cp.Maximize(z @ beta + mu * cp.sum(cp.entr(beta)))
        best = cp.Problem(value, [beta >= 0, cp.sum(beta) == 1, *caps]).solve(cp.CLARABEL)
        assert loss.envelope(scores, y, mu) == pytest.approx(best, rel=1e-6, abs=1e-6)
        alpha = loss.dual_point(scores, y, mu)
        assert alpha.sum() == pytest.approx(0, abs=1e-12)
        assert np.isfinite(loss.conjugate(-alpha, y))
        penalty = loss.penalty(alpha[None], np.array([y]))[0]
        assert loss.envelope(scores, y, mu) == pytest.approx(
            -alpha @ z - 0.5 * mu * penalty, rel=1e-12, abs=1e-12
        )
        for j in range(m):
            step = 1e-5 * (np.arange(m) == j)
            change = loss.envelope(scores + step, y, mu) - loss.envelope(scores - step, y, mu)
            assert change / 2e-5 == pytest.approx(-alpha[j], abs=1e-6)


@pytest.mark.parametrize("scale", [1e-300, 1e-5, 1e5, 1e300])
@pytest.mark.parametrize("k", [1, 3])
def test_scores_of_any_size(scale: float, k: int) -> None:
    rng = np.random.default_rng(0)
    scores, labels = scale * rng.standard_normal((50, 6)), rng.integers(6, size=50)
    values, alpha = TopKEntropy(k).smoothed(scores, labels, 1.0)
    assert np.isfinite(values).all()
    assert (values >= 0).all()
    assert np.isfinite(TopKEntropy(k).conjugate(-alpha, labels)).all()


@pytest.mark.parametrize("k", [1, 2, 4])
def test_array_code_is_the_same(k: int) -> None:
    xp = pytest.importorskip("array_api_strict")
    rng = np.random.default_rng(0)
    scores, labels = 3 * rng.standard_normal((40, 7)), rng.integers(7, size=40)
    loss = TopKEntropy(k, 0.5)
    here = ArrayLoss(loss, xp, xp.asarray(scores), 7)  # type: ignore[arg-type]
    y = xp.asarray(labels)
    deltas = here.deltas(slice(0, 40), y, xp.float64)
    values, alpha = here.envelopes(xp.asarray(scores), y, deltas, 0.7)
    np.testing.assert_allclose(np.asarray(values), loss.envelope(scores, labels, 0.7), rtol=1e-12)
    np.testing.assert_allclose(
        np.asarray(alpha), loss.dual_point(scores, labels, 0.7), rtol=0, atol=1e-13
    )


@pytest.mark.parametrize("C", [0.1, 10.0])
def test_the_objective_is_that_of_logistic_regression(C: float) -> None:
    X, y = load_iris(return_X_y=True)
    ours = MulticlassSVC(loss="softmax", C=C, fit_intercept=False, tol=1e-9).fit(X, y)
    theirs = LogisticRegression(C=C, fit_intercept=False, tol=1e-12, max_iter=10_000).fit(X, y)
    assert ours.status_ is Status.SOLVED

    def objective(W: Any) -> float:
        scores = X @ W.T
        own = scores[np.arange(y.size), y]
        return float(0.5 * (W**2).sum() + C * (np.logaddexp.reduce(scores, axis=1) - own).sum())

    assert ours.objective_ == pytest.approx(objective(ours.coef_), rel=1e-10)
    assert ours.bound_ <= objective(theirs.coef_) * (1 + 1e-12)
    assert objective(theirs.coef_) == pytest.approx(ours.objective_, rel=1e-8)
    np.testing.assert_allclose(ours.predict_proba(X), theirs.predict_proba(X), rtol=0, atol=1e-4)


def test_two_classes_have_the_sigmoid_of_their_difference() -> None:
    X, y = load_iris(return_X_y=True)
    X, y = X[50:] - X[50:].mean(axis=0), np.array(["no", "yes"])[y[50:] - 1]
    ours = MulticlassSVC(loss="softmax", fit_intercept=False, tol=1e-8).fit(X, y)
    # each class has half of the difference: |W|² is half of |w|²
    theirs = LogisticRegression(C=2.0, fit_intercept=False, tol=1e-12).fit(X, y)
    np.testing.assert_allclose(ours.predict_proba(X), theirs.predict_proba(X), rtol=0, atol=1e-4)
    np.testing.assert_allclose(
        np.exp(ours.predict_log_proba(X)).sum(axis=1), 1.0, rtol=0, atol=1e-14
    )
    likely = ours.classes_[ours.predict_proba(X).argmax(axis=1)]
    np.testing.assert_array_equal(likely, ours.predict(X))


@pytest.mark.parametrize("loss", ["softmax", "top-k-entropy", Softmax(1.0), TopKEntropy(2, 0.5)])
@pytest.mark.parametrize("smoothing", ["auto", 0.3])
def test_models_are_certified(loss: Any, smoothing: Any, tmp_path: Any) -> None:
    X, y = load_iris(return_X_y=True)
    weight = np.random.default_rng(0).uniform(0, 2, y.size)
    model = MulticlassSVC(loss=loss, k=2, smoothing=smoothing, C=2.0).fit(X, y, weight)
    assert model.status_ is Status.SOLVED
    assert certify(model, X, y, sample_weight=weight).holds
    again = MulticlassSVC(loss=loss, k=2, smoothing=smoothing, C=2.0, tol=1e-7).fit(
        sp.csr_array(X), y, weight
    )
    assert model.bound_ <= again.objective_
    assert again.bound_ <= model.objective_
    save(model, tmp_path / "model")
    kept = load(tmp_path / "model")
    assert certify(kept, X, y, sample_weight=weight).holds
    np.testing.assert_array_equal(kept.predict(X), model.predict(X))
    model.gap_ = model.gap_ / 2
    model.bound_ = model.objective_ - model.gap_
    assert not certify(model, X, y, sample_weight=weight).holds or model.gap_ == 0


def test_a_fit_that_was_cut_short_is_certified_and_goes_on() -> None:
    X, y = load_digits(return_X_y=True)
    model = MulticlassSVC(loss="softmax", max_iter=1, warm_start=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(X / 16, y)
    assert model.status_ is Status.ITERATION_LIMIT
    assert certify(model, X / 16, y).holds
    cold = MulticlassSVC(loss="softmax").fit(X / 16, y)
    assert model.bound_ <= cold.objective_ <= model.objective_ + cold.gap_
    again = model.set_params(max_iter=1000).fit(X / 16, y)
    assert again.status_ is Status.SOLVED


def test_rows_on_disk_are_read_in_blocks(tmp_path: Any) -> None:
    X, y = load_digits(return_X_y=True)
    np.save(tmp_path / "X.npy", (X / 16).astype(np.float32))
    rows = np.load(tmp_path / "X.npy", mmap_mode="r")
    model = MulticlassSVC(loss="softmax").fit(rows, y)
    held = MulticlassSVC(loss="softmax").fit(X / 16, y)
    assert model.status_ is Status.SOLVED
    assert model.bound_ <= held.objective_
    assert held.bound_ <= model.objective_
    assert certify(model, rows, y).holds


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"kernel": "rbf"}, "kernel must be 'linear' with loss='softmax'"),
        ({"solver": "block"}, "solver must be 'auto' or 'newton' or 'envelope' with"),
        ({"smoothing": 0}, "smoothing must be 'auto' or positive with loss='softmax'"),
        ({"loss": TopKEntropy(3)}, "k must be less than the number"),
    ],
)
def test_refusals(parameters: Any, message: str) -> None:
    X, y = load_iris(return_X_y=True)
    with pytest.raises(ValueError, match=message):
        MulticlassSVC(**{"loss": "softmax", **parameters}).fit(X, y)


def test_only_softmax_has_probabilities() -> None:
    X, y = load_iris(return_X_y=True)
    with pytest.raises(ValueError, match="margin must be a number >= 0"):
        Softmax(-1.0)
    assert not hasattr(MulticlassSVC(loss="top-k-entropy", k=2).fit(X, y), "predict_proba")
    assert hasattr(MulticlassSVC(loss=Softmax(0.5)).fit(X, y), "predict_log_proba")


@pytest.mark.parametrize("classes", [2, 3])
def test_a_head_for_a_network(classes: int) -> None:
    torch = pytest.importorskip("torch")
    X, y = load_iris(return_X_y=True)
    X, y = X[y < classes], y[y < classes]
    model = MulticlassSVC(loss="softmax").fit(X, y)
    head = model.to_torch()
    scores = head(torch.tensor(X, dtype=torch.float32))
    shares = torch.softmax(scores, dim=1).detach().numpy()
    np.testing.assert_allclose(shares, model.predict_proba(X), rtol=0, atol=1e-5)
    with pytest.raises(TypeError, match="to_torch needs kernel='linear'"):
        MulticlassSVC(kernel="rbf").fit(X, y).to_torch()


@pytest.mark.parametrize("share", [1e-3, 1e-9, 1e-17, 1e-200])
def test_penalties_of_labels_that_have_nearly_all_keep_their_digits(share: float) -> None:
    """``(1 - p) ln(1 - p) = -p`` to first order; 1 - p has lost the digits of p."""
    alpha, labels = np.array([[-share, share, 0.0]]), np.array([1])
    expected = 2.0 * (share * np.log(share) + (1.0 - share) * np.log1p(-share))
    assert Softmax().penalty(alpha, labels) == pytest.approx([expected], rel=1e-14)
    assert _by_arrays(Softmax(), alpha, labels) == pytest.approx([expected], rel=1e-14)


@pytest.mark.parametrize("loss", [Softmax(), TopKEntropy(2)])
def test_penalties_are_what_the_envelope_takes_off(loss: Any) -> None:
    rng = np.random.default_rng(0)
    scores, labels, mu = rng.standard_normal((20, 4)), rng.integers(0, 4, 20), 0.7
    values, alpha = loss.smoothed(scores, labels, mu)
    margins = scores - scores[np.arange(20), labels][:, None]
    expected = 2.0 * (-(alpha * margins).sum(axis=1) - values) / mu
    assert loss.penalty(alpha, labels) == pytest.approx(expected, rel=1e-9)
    assert _by_arrays(loss, alpha, labels) == pytest.approx(expected, rel=1e-9)


def _by_arrays(loss: Any, alpha: Any, labels: Any) -> Any:
    """Penalties by operations on whole arrays."""
    xp = pytest.importorskip("array_api_strict")
    there = ArrayLoss(loss, xp, xp.asarray(alpha), alpha.shape[1])
    return np.asarray(there.penalty(xp.asarray(alpha), xp.asarray(labels)))
