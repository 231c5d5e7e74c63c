"""Functions of torch tensors: the same answers as closed forms, certified in float64."""

from __future__ import annotations

import numpy as np
import pytest

from cornerstep import minimize
from cornerstep.domains import L1Ball, Simplex
from cornerstep.objectives import LeastSquares, Logistic, TorchObjective, check_objective

torch = pytest.importorskip("torch")

RNG = np.random.default_rng(0)
A, B = RNG.standard_normal((30, 8)), RNG.standard_normal(30)
LABELS = np.where(B > 0, 1.0, -1.0)


def squares(x, rows, target):
    return 0.5 * ((rows @ x - target) ** 2).sum()


def logistic(x, rows, labels):
    return torch.nn.functional.softplus(-labels * (rows @ x)).sum()


def tensors(*arrays, dtype=torch.float64):
    return [torch.tensor(array, dtype=dtype) for array in arrays]


@pytest.mark.parametrize("precision", ["float32", "float64"])
@pytest.mark.parametrize("method", ["auto", "fw", "away", "pairwise"])
def test_minima_are_those_of_the_closed_form(precision, method):
    for function, plain, domain in (
        (squares, LeastSquares(A, B), Simplex(8)),
        (logistic, Logistic(A, LABELS), L1Ball(8, 1.0)),
    ):
        target = B if function is squares else LABELS
        objective = TorchObjective(function, 8, *tensors(A, target), precision=precision)
        result = minimize(objective, domain, rtol=1e-4, tol=0.0, method=method)
        best = minimize(plain, domain, rtol=1e-9, tol=0.0)
        assert result.success
        assert result.lower_bound <= best.value <= result.value + 1e-12
        assert result.value == pytest.approx(plain.at(result.x).value, rel=1e-13)


def test_the_gap_is_that_of_float64_and_includes_its_rounding():
    """Data in single precision are taken for what they are; nothing is rounded on top."""
    single = A.astype(np.float32), B.astype(np.float32)
    objective = TorchObjective(squares, 8, *tensors(*single, dtype=torch.float32))
    plain = LeastSquares(*(part.astype(np.float64) for part in single))
    result = minimize(objective, Simplex(8), tol=1e-3)
    position = plain.at(result.x)
    gap = position.inner - position.gradient.min()
    assert gap <= result.gap <= gap + 1e-9
    assert result.status.value == "solved"


def test_a_tolerance_below_single_precision_ends_honestly():
    objective = TorchObjective(squares, 8, *tensors(A, B))
    result = minimize(objective, Simplex(8), tol=1e-14, max_iter=40)
    best = minimize(LeastSquares(A, B), Simplex(8), tol=1e-10)
    assert result.lower_bound <= best.value <= result.value + 1e-12
    double = TorchObjective(squares, 8, *tensors(A, B), precision="float64")
    assert minimize(double, Simplex(8), tol=1e-10).success


def test_it_agrees_with_itself():
    objective = TorchObjective(logistic, 8, *tensors(A, LABELS), precision="float64")
    check_objective(objective, L1Ball(8, 2.0), n_trials=3)


def test_whole_numbers_index_and_gradients_elsewhere_do_no_harm():
    numbers = torch.tensor([0, 2, 4])
    objective = TorchObjective(
        lambda x, where: (x[where] ** 2).sum(), 5, numbers, precision="float64"
    )
    with torch.no_grad():
        np.testing.assert_allclose(objective.at(np.ones(5)).gradient, [2, 0, 2, 0, 2])


def test_what_is_refused():
    with pytest.raises(TypeError, match="function must be a function of a tensor, got 3"):
        TorchObjective(3, 2)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="data must be tensors, got ndarray"):
        TorchObjective(squares, 8, A)
    with pytest.raises(ValueError, match="precision must be float32 or float64, got 'half'"):
        TorchObjective(squares, 8, precision="half")
    with pytest.raises(
        ValueError, match=r"function must return a tensor with one number, got \(8,"
    ):
        TorchObjective(lambda x: x, 8).at(np.ones(8))
    with pytest.raises(ValueError, match="tensor with one number, got float"):
        TorchObjective(lambda x: 1.0, 8).at(np.ones(8))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_on_a_gpu():
    data = [part.to("cuda") for part in tensors(A, B)]
    result = minimize(TorchObjective(squares, 8, *data), Simplex(8), tol=1e-3)
    best = minimize(LeastSquares(A, B), Simplex(8), tol=1e-10)
    assert result.success
    assert result.lower_bound <= best.value <= result.value + 1e-12
