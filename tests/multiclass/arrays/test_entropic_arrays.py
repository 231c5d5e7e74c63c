"""Softmax and top-k entropy on arrays of other libraries: what NumPy finds, with a certificate."""

from __future__ import annotations

import os
import warnings
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from cornerstep import MulticlassSVC, certify, regularization_path
from cornerstep.data.arrays import namespace, to_numpy
from cornerstep.losses import Softmax, TopKEntropy
from cornerstep.multiclass.arrays.losses import ArrayLoss
from cornerstep.multiclass.arrays.rows import ArrayExamples, ArrayProblem
from cornerstep.multiclass.arrays.vertices import nearest_on_gpu

LOSSES: dict[str, dict[str, Any]] = {
    "softmax": {"loss": "softmax"},
    "top-2 entropy": {"loss": "top-k-entropy", "k": 2},
    "top-4 entropy": {"loss": "top-k-entropy", "k": 4},
}
DEVICES = {"strict": "", "torch": "cpu", "cuda": "cuda"}  # operations of the first are those of all


def _tensor(device: str, values: Any, dtype: str = "float64") -> Any:
    if device == "strict":
        if dtype == "bfloat16":
            pytest.skip("no such type")
        strict = pytest.importorskip("array_api_strict")
        out = strict.asarray(values)
        return strict.astype(out, getattr(strict, dtype)) if values.dtype.kind == "f" else out
    torch = pytest.importorskip("torch", reason="torch is not installed")
    if DEVICES[device] == "cuda" and not torch.cuda.is_available():
        pytest.skip("no GPU")
    out = torch.tensor(values, device=DEVICES[device])
    return out.to(getattr(torch, dtype)) if out.is_floating_point() else out


def _doubles(given: Any) -> Any:
    return np.asarray(to_numpy(given), dtype=np.float64)


def _clouds(n: int = 400, d: int = 12, m: int = 7) -> tuple[Any, Any]:
    rng = np.random.default_rng(0)
    y = np.concatenate([np.arange(m), rng.integers(0, m, n - m)])
    return 0.5 * rng.standard_normal((m, d))[y] + 0.5 * rng.standard_normal((n, d)), y


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", ["float64", "float32", "bfloat16"])
@pytest.mark.parametrize("name", LOSSES)
def test_the_optimum_is_that_of_numpy(name: str, dtype: str, device: str) -> None:
    """P is strongly convex: ``|W - W*|² <= 2 gap``, of the data as they are given."""
    X, y = _clouds()
    given = _tensor(device, X, dtype)
    model = MulticlassSVC(tol=1e-3, max_iter=3000, **LOSSES[name]).fit(given, _tensor(device, y))
    exact = MulticlassSVC(tol=1e-9, max_iter=3000, random_state=0, **LOSSES[name])
    exact.fit(_doubles(given), y)
    assert model.status_.value == "solved"
    assert model.bound_ <= exact.objective_
    assert exact.bound_ <= model.objective_
    away = to_numpy(model.coef_) - exact.coef_
    assert np.sqrt((away**2).sum()) <= np.sqrt(2 * model.gap_) + np.sqrt(2 * exact.gap_) + 1e-9
    check = certify(model, given, _tensor(device, y))
    assert check.holds, check.problems
    if name == "softmax":
        shares = to_numpy(model.predict_proba(given))
        np.testing.assert_allclose(
            shares.sum(axis=1), 1.0, rtol=1e-12 if dtype == "float64" else 1e-5
        )


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("scale", [1e-6, 1e6, 1e12])
def test_bounds_are_true_at_any_scale(device: str, scale: float) -> None:
    X, y = _clouds(60)
    given = scale * X
    options: dict[str, Any] = {"loss": "softmax", "C": scale**-2, "tol": 1e-6, "max_iter": 500}
    model = MulticlassSVC(**options).fit(_tensor(device, given), _tensor(device, y))
    exact = MulticlassSVC(**options).fit(given, y)
    assert model.bound_ <= exact.objective_
    assert exact.bound_ <= model.objective_
    check = certify(model, given, y)
    assert check.holds, check.problems


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("loss", [Softmax(), TopKEntropy(3), Softmax(0.5)], ids=repr)
@pytest.mark.parametrize("size", [1e-300, 1e-3, 1.0, 1e3, 1e150])
def test_envelopes_and_penalties_are_those_of_numpy(device: str, loss: Any, size: float) -> None:
    rng = np.random.default_rng(0)
    scores, labels = size * rng.standard_normal((500, 9)), rng.integers(0, 9, 500)
    scores[::7] = np.round(scores[::7] / size) * size  # ties
    there, y = _tensor(device, scores), _tensor(device, labels)
    xp = namespace(there)
    arrays = ArrayLoss(loss, xp, there, 9)
    deltas = arrays.deltas(slice(0, 500), y, xp.float64)
    values, alpha = arrays.envelopes(there, y, deltas, 0.7)
    expected, points = loss.smoothed(scores, labels, 0.7)
    np.testing.assert_allclose(to_numpy(values), expected, rtol=1e-12, atol=1e-13 * size)
    # large margins that cancel in a sum leave rounding, which then decides the label's share
    sure = (size <= 1e3) | (expected > 1e-10 * size)
    np.testing.assert_allclose(to_numpy(alpha)[sure], points[sure], rtol=0, atol=1e-12)
    np.testing.assert_allclose(points.sum(axis=1), 0.0, atol=1e-12)  # also of ties of any size
    assert (points >= -1.0 / loss.k - 1e-12).all()
    penalties = to_numpy(arrays.penalty(_tensor(device, points), y))
    np.testing.assert_allclose(penalties, loss.penalty(points, labels), rtol=1e-12, atol=1e-15)


def _for_kernels() -> str:
    """A GPU, or with ``TRITON_INTERPRET=1`` in the environment Triton's interpreter on the CPU."""
    torch = pytest.importorskip("torch", reason="torch is not installed")
    pytest.importorskip("triton")
    if os.environ.get("TRITON_INTERPRET") == "1":
        return "cpu"
    if not torch.cuda.is_available():
        pytest.skip("no GPU")
    return "cuda"


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # of the interpreter: infinities
@pytest.mark.parametrize("seed", range(24))
def test_fused_entropies_on_cuda(seed: int) -> None:
    """Dual points and the four sums over them are those of NumPy, at any smoothing and size."""
    device = _for_kernels()
    import torch

    rng = np.random.default_rng(seed)
    m = int(rng.integers(2, 90))
    margin, k = float(rng.choice([0.0, 1.0])), int(rng.integers(1, min(m, 8)))
    loss: Any = Softmax(margin) if seed % 3 == 0 or k >= m else TopKEntropy(k, margin)
    scores = rng.standard_normal((8, m)) * rng.choice([1e-3, 0.1, 1.0, 10.0, 1e3])
    if seed % 4 == 0:
        scores = np.round(2 * scores) / 2
    smoothing = float(rng.choice([1e-2, 0.3, 1.0, 10.0]))
    labels = torch.tensor(rng.integers(0, m, 8), device=device)
    scales = torch.tensor(rng.random(8) + 0.1, device=device)
    examples = ArrayExamples(torch.zeros((8, 2), dtype=torch.float64, device=device))
    problem = ArrayProblem(examples, labels, m, loss, scales, smoothing)
    given = torch.tensor(scores, device=device)
    numbers, points, _ = nearest_on_gpu(problem)(slice(0, 8), given, smoothing)
    of, s = labels.cpu().numpy(), scales.cpu().numpy()
    alpha = (points * problem.largest / scales[:, None]).cpu().numpy()
    values, expected = loss.smoothed(scores, of, smoothing)
    np.testing.assert_allclose(alpha, expected, rtol=1e-10, atol=1e-13)
    z = scores - scores[np.arange(8), of][:, None] + loss.deltas(of, m)
    sums = [values, loss.gains(expected, of), -(expected * z).sum(1), loss.penalty(expected, of)]
    size = s @ (1 + np.abs(z).max(1))
    wanted = [s @ part for part in sums]
    np.testing.assert_allclose(numbers.cpu().numpy(), wanted, rtol=1e-10, atol=1e-13 * size)


@pytest.mark.parametrize("device", ["strict", "torch"])
@pytest.mark.parametrize("loss", ["softmax", "max-hinge"])
def test_a_path_starts_from_the_solutions_before(device: str, loss: str) -> None:
    """The same certificates as from zero, in fewer passes."""
    X, y = _clouds(200, 8, 5)
    given, labels = _tensor(device, X), _tensor(device, y)
    Cs = np.logspace(-1, 2, 6)
    plain = MulticlassSVC(loss, solver="envelope", tol=1e-3, max_iter=2000)
    path = regularization_path(plain, given, labels, Cs.tolist())
    alone = [clone(plain).set_params(C=C).fit(given, labels) for C in Cs]
    for after, before in zip(path.estimators, alone, strict=True):
        assert after.status_.value == before.status_.value == "solved"
        assert after.bound_ <= before.objective_
        assert before.bound_ <= after.objective_
    assert path.column("n_iter_").sum() <= 0.9 * sum(model.n_iter_ for model in alone)
    once = clone(plain).set_params(warm_start=True).fit(given, labels)
    again = once.set_params(C=2.0).fit(given[:150, :], labels[:150])  # other rows: from zero
    assert again.n_iter_ == clone(plain).set_params(C=2.0).fit(given[:150, :], labels[:150]).n_iter_


@pytest.mark.parametrize("scale", [1e100, 1e140])
@pytest.mark.parametrize("name", LOSSES)
def test_honest_models_hold_where_squares_leave_float64(name: str, scale: float) -> None:
    """A point whose size is not a number is no place to begin from."""
    X, y = _clouds(60)
    given = _tensor("torch", scale * X), _tensor("torch", y)
    model = MulticlassSVC(**LOSSES[name], C=scale**-2, tol=1e-4, max_iter=60, solver="envelope")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(*given)
    check = certify(model, *given)
    assert check.holds, check.problems
