"""Checkpoints of ``MulticlassSVC``: training goes on only with what it was written for.

The same problem resumes to a true certificate; other rows, labels, weights or C are refused; a
damaged or edited file is refused, or training from it ends in a true certificate.
"""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np

from attack import multiclass_family
from attack.draws import one_of
from attack.files_family import damaged
from attack.judge import Judge, RefusedError
from attack.multiclass_task import check
from cornerstep import MulticlassSVC


def _edited(rng: Any, data: bytes) -> bytes:
    """One array of the state changed, the archive whole."""
    with np.load(io.BytesIO(data)) as old:
        arrays = dict(old)
    name = one_of(rng, *(key for key in arrays if arrays[key].dtype.kind in "biuf"))
    values, kind = arrays[name], int(rng.integers(5))
    if kind == 0:
        arrays.pop(name)
    elif kind == 1:
        arrays[name] = values.ravel()[:-1] if values.size > 1 else np.zeros(2)
    elif kind == 2:
        arrays[name] = values.astype(np.float32 if values.dtype.kind == "f" else np.float64)
    elif kind == 3:
        arrays[name] = np.roll(values, 1)
    else:
        arrays[name] = values * one_of(rng, 2, 0, -1) + one_of(rng, 0, 1)
    out = io.BytesIO()
    np.savez(out, **arrays)
    return out.getvalue()


def _others(rng: Any, X: Any, y: Any, share: Any) -> tuple[str, tuple[Any, ...]]:
    """Other data, of the same size."""
    order = rng.permutation(y.size)
    weighted = np.ones(y.size) if share is None else share
    kinds = {
        "permuted rows": (X[order], y[order], None if share is None else share[order]),
        "permuted labels": (X, y[order], share),
        "another number": (X + np.eye(*X.shape) * (np.abs(X).max() or 1.0), y, share),
        "other weights": (X, y, weighted * np.linspace(1, 2, y.size)),
    }
    name = one_of(rng, *kinds)
    return name, kinds[name]


def _is_other(one: tuple[Any, ...], other: tuple[Any, ...], kernel: bool) -> bool:
    """Whether the data of positive weight differ by more than a kernel may make of them."""
    used = [slice(None) if share is None else share > 0 for _, _, share in (one, other)]
    for k, (a, b) in enumerate(zip(one, other, strict=True)):
        if a is None and b is None:
            continue
        a, b = (np.ones(1) if a is None else a[used[0]], np.ones(1) if b is None else b[used[1]])
        if not np.array_equal(a, b) and not (k == 0 and kernel):
            return True
    return False


def attack(rng: Any, judge: Judge) -> None:
    """A fit that is cut short, then one that goes on, in one of four ways."""
    X, y, share, m, given = multiclass_family.draw(rng)
    how = multiclass_family.training(rng, given)
    how.update(time_limit=None, max_iter=int(one_of(rng, 1, 3, 8)))
    shown = {k: v for k, v in {**given, **how}.items() if k not in ("costs", "rho")}
    judge.says(shown, X.shape, m)
    path: Path = judge.folder() / "state.npz"
    task = multiclass_family.task_of(given, X, y, share, m)

    def train(max_iter: int, data: tuple[Any, ...], **changes: Any) -> Any:
        model = MulticlassSVC(**{**given, **how, **changes, "max_iter": max_iter}, checkpoint=path)
        return judge.call(model.fit, *data)

    found = [check(task, train(how["max_iter"], (X, y, share)), how["tol"], judge)]
    if not path.exists():
        raise RefusedError("no checkpoint was written")
    kind = rng.random()
    if kind < 0.4:
        name, data = _others(rng, X, y, share)
        if _is_other((X, y, share), data, "kernel" in given):
            judge.refuses(f"a checkpoint of {name}", train, 20, data)
        return
    if kind < 0.5:
        other = lambda: train(20, (X, y, share), C=2 * given["C"])  # noqa: E731
        judge.refuses("a checkpoint of another C", other)
        return
    if kind < 0.8:
        raw = path.read_bytes()
        change = damaged if kind < 0.6 else _edited
        path.write_bytes(change(rng, raw))
        judge.says(change.__name__)
    found.append(check(task, train(40, (X, y, share)), how["tol"], judge))
    multiclass_family.bounded(found, judge)
