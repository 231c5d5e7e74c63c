"""Kernel machines on a GPU: the models of the host, in bounded memory of the device."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")
if not torch.cuda.is_available():
    pytest.skip("no GPU", allow_module_level=True)

from cornerstep import OneClassHull, ReducedHullSVC, ReducedHullSVR, certify  # noqa: E402
from cornerstep.data.arrays import DeviceError  # noqa: E402
from cornerstep.learning.kernel_blocks import InnerProductKernel  # noqa: E402
from cornerstep.learning.kernel_device import DeviceKernel  # noqa: E402


def digits(n, d=256, classes=10, seed=0):
    """Strokes of classes in part, like images of digits: between 0 and 1, most of them 0."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, classes, n)
    means = rng.random((classes, d)) * (rng.random((classes, d)) < 0.3)
    inside = means[y] + 0.3 * rng.standard_normal((n, d)) - 0.2
    return np.clip(inside, 0.0, 1.0), y


@pytest.mark.parametrize("device", ["cuda"])
@pytest.mark.parametrize("name", ["linear", "rbf", "poly", "sigmoid"])
def test_entries_are_those_of_the_host(name, device):
    X, _ = digits(3_000)
    options = {"gamma": 0.02, "degree": 3, "coef0": 0.5}
    host = InnerProductKernel(X, name, **options)
    there = DeviceKernel(X, name, **options, device=torch.device(device))
    some = np.arange(0, 3_000, 7)
    wanted, found = host.block(some, None), there.block(some, None)
    share, exponents = host.entry_errors()
    allowed = share * np.outer(host.sizes[some], host.sizes)
    allowed += exponents[some][:, None] + exponents
    assert (np.abs(wanted - found) <= 2 * allowed).all()  # each is off by as much


@pytest.mark.parametrize("device", ["cuda"])
@pytest.mark.parametrize("parameters", [{"C": 10.0}, {"nu": 0.1}])
def test_models_are_those_of_the_host(parameters, device):
    X, y = digits(4_000)
    there = torch.as_tensor(X, device=device)
    labels = torch.as_tensor(y, device=device)
    model = ReducedHullSVC(random_state=0, **parameters).fit(there, labels)
    host = ReducedHullSVC(random_state=0, **parameters).fit(X, y)
    assert model.status_.value == host.status_.value == "solved"
    for one, other in zip(model.machines_, host.machines_, strict=True):
        assert one.objective - one.gap <= other.objective + 1e-12 * abs(other.objective)
        assert other.objective - other.gap <= one.objective + 1e-12 * abs(one.objective)
    assert np.array_equal(model.predict(there), model.predict(X))
    assert certify(model, X, y).holds


@pytest.mark.parametrize("device", ["cuda"])
def test_one_class_and_regression(device):
    X, y = digits(4_000)
    there = torch.as_tensor(X, device=device)
    for make, targets in ((OneClassHull(0.2), y), (ReducedHullSVR(C=5.0), y.astype(float))):
        model = make.fit(there, torch.as_tensor(targets, device=device))
        assert model.status_.value == "solved"
        assert certify(model, X, targets).holds


@pytest.mark.parametrize("device", ["cuda"])
def test_memory_of_the_device_is_bounded(device):
    """The examples in float64, once for all and once for a pair, and blocks of 128 MiB."""
    X, y = digits(20_000, classes=2)
    there = torch.as_tensor(X, device=device)
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    ReducedHullSVC(C=1.0, random_state=0).fit(there, y)
    taken = torch.cuda.max_memory_allocated() - before
    assert taken <= 4 * X.nbytes + 4 * 2**27


@pytest.mark.parametrize("device", ["cuda"])
def test_sparse_tensors_are_refused(device):
    with pytest.raises(ValueError, match="X must be dense on a GPU"):
        ReducedHullSVC().fit(torch.eye(4, device=device).to_sparse(), [0, 1, 0, 1])


@pytest.mark.parametrize("device", ["cuda"])
def test_too_little_memory_is_one_clear_error(device):
    X, y = digits(20_000)
    there = torch.as_tensor(X, device=device)
    torch.cuda.empty_cache()
    taken = torch.cuda.memory_allocated() / torch.cuda.get_device_properties(0).total_memory
    torch.cuda.set_per_process_memory_fraction(min(1.0, taken + 1e-5))
    try:
        with pytest.raises(DeviceError, match="the device cuda:0 failed on X of shape"):
            ReducedHullSVC(C=1.0).fit(there, y)
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)
