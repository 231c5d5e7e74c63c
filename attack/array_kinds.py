"""The same numbers as every kind of array that the library takes."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

import numpy as np
import scipy.sparse as sp

from attack.draws import one_of
from attack.judge import Judge

IN_MEMORY = ("fortran", "read-only", "float32", "csr", "csr float32", "list", "pandas", "strided")
ELSEWHERE = (
    "torch", "torch float32", "standard", "standard", "mapped", "mapped float32", "opened",
    "opened csr",
)  # fmt: skip
_NEEDS = {"torch": "torch", "standard": "array_api_strict"}  # the second takes the code of a GPU


def as_kind(rng: Any, X: Any, judge: Judge, kinds: tuple[str, ...]) -> tuple[str, Any, Any]:
    """A kind, the numbers as such an array, and the same in float64 exactly."""
    kind = one_of(rng, *kinds)
    if find_spec(_NEEDS.get(kind.split()[0], "numpy")) is None:
        kind = "read-only"
    if kind.endswith("float32"):
        small = X.astype(np.float32)
        if not np.isfinite(small).all():
            kind = kind.removesuffix("float32").strip() or "read-only"
        else:
            X = small
    return kind, _made(kind, X, judge), np.asarray(X, dtype=np.float64)


def _made(kind: str, X: Any, judge: Judge) -> Any:
    name, _, _ = kind.partition(" ")
    if kind == "read-only" or kind == "float32":
        X = X.copy()
        X.setflags(write=False)
        return X
    if name == "fortran":
        return np.asfortranarray(X)
    if name == "strided":
        return np.repeat(X, 2, axis=0)[::2]
    if kind.startswith("opened"):
        return _opened(kind, X, judge)
    return _OTHERS[name](X, judge)


def _pandas(X: Any, judge: Judge) -> Any:
    import pandas as pd

    return pd.DataFrame(X, columns=[f"x{j}" for j in range(X.shape[1])])


def _torch(X: Any, judge: Judge) -> Any:
    import torch

    return torch.from_numpy(X.copy())


def _standard(X: Any, judge: Judge) -> Any:
    import array_api_strict

    return array_api_strict.asarray(X.copy())


def _mapped(X: Any, judge: Judge) -> Any:
    path = judge.folder() / "mapped.npy"
    np.save(path, X)
    return np.load(path, mmap_mode="r")


def _opened(kind: str, X: Any, judge: Judge) -> Any:
    from cornerstep.streaming import open_rows

    if kind == "opened":
        path = judge.folder() / "rows.npy"
        np.save(path, X)
        return judge.call(open_rows, path)
    path = judge.folder() / "rows.svm"
    lines = (" ".join(["0", *(f"{j + 1}:{v!r}" for j, v in enumerate(row))]) for row in X.tolist())
    path.write_text("\n".join(lines) + "\n")
    return judge.call(open_rows, path, n_features=X.shape[1])


_OTHERS = {
    "csr": lambda X, judge: sp.csr_array(X),
    "list": lambda X, judge: X.tolist(),
    "pandas": _pandas,
    "torch": _torch,
    "standard": _standard,
    "mapped": _mapped,
}
