"""Every kernel runs with the compiler switched off, and does what it does when compiled."""

from __future__ import annotations

import importlib
import os
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from numba.core.dispatcher import Dispatcher

import cornerstep

SOURCE = Path(cornerstep.__file__).parent


def kernels():
    """All compiled functions of the package, by module and name."""
    found = {}
    for path in SOURCE.rglob("*.py"):
        if "cornerstep.core.compiling import" in path.read_text(encoding="utf-8"):
            name = ".".join(("cornerstep", *path.relative_to(SOURCE).with_suffix("").parts))
            for item in vars(importlib.import_module(name)).values():
                if isinstance(item, Dispatcher):
                    found[item.py_func.__module__, item.py_func.__name__] = item
    return found


@pytest.fixture(scope="module")
def without_jit(tmp_path_factory):
    path = tmp_path_factory.mktemp("jit") / "calls"
    subprocess.run(
        [sys.executable, "-m", "support.without_jit", str(path)],
        env={**os.environ, "NUMBA_DISABLE_JIT": "1", "PYTHONPATH": os.pathsep.join(sys.path)},
        check=True,
    )
    return pickle.loads(path.read_bytes())


def test_every_kernel_runs_without_the_jit(without_jit):
    ran, _ = without_jit
    assert set(kernels()) == ran


def test_every_kernel_does_the_same_without_the_jit(without_jit):
    compiled = kernels()
    for name, given, answer, left in without_jit[1]:
        args = pickle.loads(given)
        single = any(getattr(arg, "dtype", None) == np.float32 for arg in args)
        assert_same((compiled[name](*args), args), (answer, left), name, 1e-5 if single else 1e-9)


def assert_same(one, other, name, rtol):
    if isinstance(one, tuple):
        for a, b in zip(one, other, strict=True):
            assert_same(a, b, name, rtol)
    elif one is not None:
        size = np.max(np.abs(other), where=np.isfinite(other), initial=0.0)
        np.testing.assert_allclose(one, other, rtol=0, atol=rtol * size, err_msg=str(name))
