"""Fits on a GPU: all end, on features as networks give them; and what a failing device says."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")
if not torch.cuda.is_available():
    pytest.skip("no GPU", allow_module_level=True)

from cornerstep import MulticlassSVC, certify  # noqa: E402
from cornerstep.data.arrays import DeviceError, to_numpy  # noqa: E402

RHO = [5 / 15, 4 / 15, 3 / 15, 2 / 15, 1 / 15]
LOSSES: dict[str, dict[str, Any]] = {
    "max-hinge": {},
    "top-k": {"k": 5},
    "usunier": {"k": 5},
    "weighted-usunier": {"rho": RHO},
    "weighted-top-k": {"rho": RHO},
}


def _features(n, d, m, seed=0):
    """GELU of Gaussians with a falling spectrum, around class means: not centred."""
    g = torch.Generator(device="cuda").manual_seed(seed)
    spectrum = torch.arange(1, d + 1, device="cuda") ** -0.5
    mix = torch.randn((d, d), device="cuda", generator=g) * spectrum[:, None]
    means = 0.9 * torch.randn((m, d), device="cuda", generator=g)
    y = torch.randint(m, (n,), device="cuda", generator=g)
    inside = means[y] + 1.5 * torch.randn((n, d), device="cuda", generator=g)
    X = torch.nn.functional.gelu(inside @ mix)
    return X / (torch.linalg.vector_norm(X) / n**0.5), y


@pytest.mark.filterwarnings("ignore:MulticlassSVC stopped")
@pytest.mark.parametrize("n_classes", [100, 397, 1000])
@pytest.mark.parametrize("C", [1.0, 10.0, 100.0])
@pytest.mark.parametrize("loss", LOSSES)
def test_fits_end(loss, C, n_classes):
    X, y = _features(20_000, 128, n_classes)
    model = MulticlassSVC(loss, C=C, tol=1e-2, time_limit=10, **LOSSES[loss]).fit(X, y)
    assert 0 <= model.relative_gap_ < 1
    assert model.status_.value in ("solved", "time limit", "iteration limit")


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float64"])
@pytest.mark.parametrize("loss", LOSSES)
def test_certificates_hold_on_the_host(loss, dtype):
    X, y = _features(1_000, 32, 10)
    X = X.to(getattr(torch, dtype))
    model = MulticlassSVC(loss, tol=1e-2, **LOSSES[loss]).fit(X, y)
    found = certify(model, X, y)
    assert found.holds, found.problems
    again = MulticlassSVC(loss, tol=1e-6, random_state=0, **LOSSES[loss])
    again.fit(to_numpy(X).astype(np.float64), to_numpy(y))
    assert model.bound_ <= again.objective_
    assert again.bound_ <= model.objective_


def test_too_little_memory_is_one_clear_error():
    X, y = _features(2_000, 64, 500)
    torch.cuda.empty_cache()
    taken = torch.cuda.memory_allocated() / torch.cuda.get_device_properties(0).total_memory
    torch.cuda.set_per_process_memory_fraction(min(1.0, taken + 1e-4))
    try:
        with pytest.raises(
            DeviceError, match=r"the device cuda:0 failed on X of shape \(2000, 64\)"
        ):
            MulticlassSVC().fit(X, y)
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)
    assert not hasattr(MulticlassSVC(), "coef_")
    assert MulticlassSVC(tol=0.1).fit(X, y).relative_gap_ <= 0.1  # the device is as good as before


def test_a_lost_device_is_one_clear_error():
    """In a process of its own: a failed kernel spoils all that follow."""
    import subprocess
    import sys

    program = """
import torch
from cornerstep import MulticlassSVC
X, y = torch.randn(100, 4, device="cuda"), torch.arange(100, device="cuda") % 3
def broken():
    torch.zeros(4, device="cuda")[torch.tensor([10**6], device="cuda")]
import cornerstep.multiclass.arrays.rows as rows
before = rows.ArrayRows.envelopes
def envelopes(self, image, smoothing):
    broken()
    return before(self, image, smoothing)
rows.ArrayRows.envelopes = envelopes
try:
    MulticlassSVC().fit(X, y)
except Exception as error:
    print(type(error).__name__, error)
"""
    shown = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    line = shown.stdout.strip()
    assert line.startswith("DeviceError the device cuda:0 failed on X of shape (100, 4)"), line
