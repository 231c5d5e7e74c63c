"""``cornerstep compile``: kernels compiled ahead of the first fit, for an image of a machine."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from cornerstep.cli.screen import columns, put


def compile_kernels() -> None:
    """Compile what the default fits need, once per machine: for container images and clusters.

    Example: cornerstep compile
    """
    from cornerstep.core.clock import compiled_seconds

    rows, before = [], compiled_seconds()
    for name, fit in _fits().items():
        fit()
        now = compiled_seconds()
        rows.append([name, f"{now - before:.1f}"])
        before = now
    columns(["kernels of", "seconds"], rows)
    put(f"kept in {_place()}")


def _fits() -> dict[str, Callable[[], Any]]:
    """Fits by the default solvers, on all that has kernels of its own: large data, noise."""
    import numpy as np
    import scipy.sparse as sp

    import cornerstep
    from cornerstep.structured import ChainModel

    rng = np.random.default_rng(0)
    y = np.arange(90) % 3
    X = rng.standard_normal((90, 4)) + y[:, None]
    words = [X[i : i + 3] for i in range(0, 90, 3)]
    tags = [y[i : i + 3] for i in range(0, 90, 3)]
    noise, sides = rng.standard_normal((400, 20)), np.arange(400) % 2
    large, classes = rng.standard_normal((1100, 1000)), np.arange(1100) % 3
    linear, kernel = cornerstep.MulticlassSVC, cornerstep.ReducedHullSVC
    regression, boosting = cornerstep.ReducedHullSVR, cornerstep.SoftMarginBoostingClassifier
    return {
        "MulticlassSVC": lambda: [
            linear().fit(X, y),
            linear(C=1e4).fit(X[:, ::-1], rng.permutation(y)),
            linear(C=1e12).fit(np.eye(3), np.arange(3)),
            *(linear(tol=0.1).fit(A, classes) for A in (large, sp.csr_array(large))),
        ],
        "ReducedHullSVC": lambda: [
            kernel().fit(X, np.arange(90) % 10),
            *(kernel(C=C).fit(noise, sides) for C in (1.0, 1e4)),
        ],
        "OneClassHull, ReducedHullSVR": lambda: [
            cornerstep.OneClassHull().fit(X),
            *(regression(nu=nu).fit(X, X[:, 0]) for nu in (None, 0.3)),
        ],
        "SoftMarginBoostingClassifier": lambda: [
            boosting(max_depth=1).fit(X, y > 0),
            boosting().fit(X, y > 0),
            boosting(nu=0.3).fit(noise, sides),
        ],
        "StructuredSVC": lambda: [
            cornerstep.StructuredSVC(ChainModel(), loss=loss).fit(words, tags)
            for loss in ("max-hinge", "softmax")
        ],
    }


def _place() -> str:
    """Where compiled kernels are kept."""
    from cornerstep.core.compile_cache import cache_folder
    from cornerstep.multiclass.compiled.sweeps import scan

    return cache_folder(scan) or "memory only: no folder can be written to"
