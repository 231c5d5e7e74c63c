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
    """Small fits by the default solvers, on the kinds of arrays that have kernels of their own."""
    import numpy as np
    import scipy.sparse as sp

    import cornerstep
    from cornerstep.structured import ChainModel

    rng = np.random.default_rng(0)
    y = np.arange(90) % 3
    X = rng.standard_normal((90, 4)) + y[:, None]
    words = [X[i : i + 3] for i in range(0, 90, 3)]
    tags = [y[i : i + 3] for i in range(0, 90, 3)]
    kinds = X, X.astype(np.float32), sp.csr_array(X), sp.csr_array(X.astype(np.float32))
    return {
        "MulticlassSVC": lambda: [cornerstep.MulticlassSVC().fit(A, y) for A in kinds],
        "ReducedHullSVC": lambda: [cornerstep.ReducedHullSVC().fit(A, y) for A in kinds],
        "SoftMarginBoostingClassifier": lambda: [
            cornerstep.SoftMarginBoostingClassifier(max_depth=depth).fit(X, y > 0)
            for depth in (1, 2)
        ],
        "StructuredSVC": lambda: [
            cornerstep.StructuredSVC(ChainModel()).fit([kind(w) for w in words], tags)
            for kind in (np.asarray, sp.csr_array)
        ],
    }


def _place() -> str:
    """Where compiled kernels are kept."""
    from cornerstep.core.compile_cache import cache_folder
    from cornerstep.multiclass.compiled.sweeps import scan

    return cache_folder(scan) or "memory only: no folder can be written to"
