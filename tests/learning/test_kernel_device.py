"""Kernels on a device: the same entries, in parts, also of rows that were taken."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import csr_array

from cornerstep import OneClassHull, ReducedHullSVC, ReducedHullSVR, certify
from cornerstep.learning import kernel_device
from cornerstep.learning.kernel_blocks import InnerProductKernel
from cornerstep.learning.kernel_device import DeviceKernel, device_of

torch = pytest.importorskip("torch", reason="torch is not installed")
CPU = torch.device("cpu")
KERNELS = [
    ("linear", {}), ("rbf", {"gamma": 0.3}), ("sigmoid", {"gamma": 0.1, "coef0": 0.2}),
    ("poly", {"gamma": 0.5, "degree": 3, "coef0": 1.0}),
]  # fmt: skip


def rows(n=80, d=5, far=False):
    X = np.random.default_rng(0).standard_normal((n, d)) + 3.0
    if far:
        X[::7] += 1e7
    return X


@pytest.mark.parametrize(("name", "options"), KERNELS)
@pytest.mark.parametrize("far", [False, True])
@pytest.mark.parametrize("at_once", [2**27, 100])
def test_entries_are_those_of_the_host(name, options, far, at_once, monkeypatch):
    monkeypatch.setattr(kernel_device, "_BYTES", at_once)
    X = rows(far=far and name == "rbf")
    host = InnerProductKernel(X, name, **options)
    there = DeviceKernel(X, name, **options, device=CPU)
    some, others = np.array([3, 77, 14, 15]), np.array([14, 0, 3, 60, 61])
    for a, b in (
        (host, there),
        (host.raised(2.0), there.raised(2.0)),
        (host.shifted(0.5), there.shifted(0.5)),
        (host.take(others), there.take(others)),
    ):
        first = some if a.n == 80 else np.array([4, 0])
        for second in (None, others if a.n == 80 else np.array([1, 4])):
            wanted, found = a.block(first, second), b.block(first, second)
            assert np.allclose(wanted, found, rtol=1e-12, atol=0)
        assert np.array_equal(a.sizes, b.sizes)
        assert a.entry_errors()[0] == b.entry_errors()[0]


@pytest.fixture
def on_device(monkeypatch):
    """Tensors of this memory count as ones of a device."""
    found = []

    def device(X):
        if isinstance(X, torch.Tensor):
            found.append(X)
            return CPU
        return None

    for module in ("base", "estimator", "one_class", "regression"):
        monkeypatch.setattr(f"cornerstep.kernel_svm.{module}.device_of", device)
    return found


def data(classes):
    rng = np.random.default_rng(1)
    y = rng.integers(0, classes, 160)
    return rng.standard_normal((160, 4)) + np.eye(4)[y], y


@pytest.mark.parametrize(
    ("make", "classes"),
    [
        (lambda: ReducedHullSVC(nu=0.5), 2), (lambda: ReducedHullSVC(C=2.0), 4),
        (lambda: ReducedHullSVC(C=2.0, kernel="linear"), 3), (lambda: OneClassHull(0.3), 2),
        (lambda: ReducedHullSVR(C=2.0), 2),
    ],
)  # fmt: skip
def test_models_are_those_of_the_host(make, classes, on_device):
    X, y = data(classes)
    X_there, y_there = torch.as_tensor(X), torch.as_tensor(y)
    model = make().set_params(random_state=0, tol=1e-5).fit(X_there, y_there)
    assert on_device
    host = make().set_params(random_state=0, tol=1e-5).fit(X, y)
    assert model.objective_ == pytest.approx(host.objective_, rel=1e-5)
    answers = getattr(model, "decision_function", model.predict)(X_there)
    assert isinstance(answers, np.ndarray)
    scores = getattr(model, "decision_function", model.predict)(X)
    assert np.allclose(answers, scores, rtol=1e-9, atol=1e-9)
    assert isinstance(model.support_vectors_, np.ndarray)
    assert certify(model, X, y).holds


def test_what_is_on_a_device():
    X = rows()
    assert device_of(X) is None
    assert device_of(csr_array(X)) is None
    assert device_of(torch.as_tensor(X)) is None
    assert device_of(torch.empty((2, 2), device="meta")) == torch.device("meta")
    strict = pytest.importorskip("array_api_strict")
    with pytest.raises(ValueError, match="a torch tensor, got one of array_api_strict"):
        device_of(strict.asarray(X))
    with pytest.raises(ValueError, match="X must be dense"):
        DeviceKernel(csr_array((5, 10_000_000)), "rbf", device=CPU)
