"""Data larger than memory: files of examples, and a fit in a process of its own that is watched.

``python -m benchmarks.streamed FOLDER SOLVER TOL [SECONDS]`` trains on what :func:`write_rows`
wrote to a folder and prints what came of it, with the peak of resident memory, as a line of JSON.
"""

from __future__ import annotations

import json
import resource
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

WIDTH, CLASSES, NOISE, C = 2_048, 100, 5.0, 0.01
_STEP = 8_192


def write_rows(folder: Path, size: float) -> None:
    """``size`` bytes of float32 rows of unit norm around a centre for each class, in X.npy, y.npy.

    What is there in the right size already is left as it is.
    """
    n = int(size / (4 * WIDTH))
    path = folder / "X.npy"
    if path.exists() and np.load(path, mmap_mode="r").shape == (n, WIDTH):
        return
    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(0)
    y = rng.integers(CLASSES, size=n)
    centres = rng.standard_normal((CLASSES, WIDTH), dtype=np.float32)
    rows = np.lib.format.open_memmap(path, mode="w+", dtype=np.float32, shape=(n, WIDTH))
    noise = np.float32(NOISE) * rng.standard_normal((_STEP, WIDTH), dtype=np.float32)
    for first in range(0, n, _STEP):
        part = y[first : first + _STEP]
        noise = np.roll(noise, int(rng.integers(WIDTH)), axis=1)  # cheaper than fresh noise
        block = centres[part] + noise[rng.permutation(_STEP)[: part.size]]
        block /= np.linalg.norm(block, axis=1, keepdims=True)
        rows[first : first + _STEP] = block
    rows.flush()
    np.save(folder / "y.npy", y)


def main() -> None:
    """Fit, and print the outcome."""
    from cornerstep import MulticlassSVC

    folder, solver, tol = Path(sys.argv[1]), sys.argv[2], float(sys.argv[3])
    X, y = np.load(folder / "X.npy", mmap_mode="r"), np.load(folder / "y.npy")
    small = MulticlassSVC(solver=solver, C=C, smoothing=0, max_iter=2, tol=0.5)
    small.fit(np.array(X[:500]), y[:500])  # compiles
    before = _peak()
    limit = float(sys.argv[4]) if len(sys.argv) > 4 else None
    model = MulticlassSVC(
        solver=solver, C=C, smoothing=0, tol=tol, time_limit=limit, random_state=0, verbose=2
    )  # fmt: skip
    start = time.perf_counter()
    model.fit(X, y)
    seconds = time.perf_counter() - start
    outcome: dict[str, Any] = {
        "bytes": X.nbytes, "seconds": seconds, "passes": model.n_iter_, "peak_bytes": _peak(),
        "before_bytes": before, "objective": model.objective_,
        "dual_objective": model.bound_, "relative_gap": model.relative_gap_,
        "status": str(model.status_),
    }  # fmt: skip
    print(json.dumps(outcome))


def _peak() -> int:
    return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


if __name__ == "__main__":
    main()
