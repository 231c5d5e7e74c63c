"""Real data for the multi-class benchmarks, read from the folder that CORNERSTEP_DATA names.

None of it is part of the project.  A set is an ``.npz`` file with ``X_train, y_train``, or with
``X, y`` where the source has no split; see ``_FILES`` for the names.  Scalings:

- *unit*: divided by one number, so that the mean of ``|x_i|²`` is 1;
- *std*: every feature to mean 0 and standard deviation 1 (constant features to 0).
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from benchmarks.core import UnavailableError

VARIABLE = "CORNERSTEP_DATA"
WHAT_TO_SET = f"set {VARIABLE} to the folder with the data sets (python -m benchmarks fetch)"

_FILES = {
    "caltech": "caltech101_silhouettes_28",
    "cub200": "cub200_2011_mobilenetv2",
    "flowers102": "flowers102_mobilenetv2",
    "news20": "news20_bydate_counts",
}
_CALTECH_TRAIN = 4_100  # as many as in the published split
_CALTECH_PAPER = 6_339
_SVD_SIZE = 1_024


def folder() -> Path | None:
    """Where the data sets are, if anywhere."""
    path = Path(os.environ.get(VARIABLE) or "/nowhere")
    return path if path.is_dir() else None


def read(name: str) -> Any:
    where = folder()
    if where is None:
        raise UnavailableError(WHAT_TO_SET)
    file = where / f"{_FILES.get(name, name)}.npz"
    if not file.exists():
        raise UnavailableError(f"{file} does not exist")
    return np.load(file)


def _plain(name: str) -> tuple[Any, Any]:
    z = read(name)
    return z["X_train"].astype(np.float64), z["y_train"]


def _flowers102() -> tuple[Any, Any]:
    """Official train + val; the indices count from 0."""
    z = read("flowers102")
    rows = np.concatenate([z["train"], z["val"]]).astype(np.intp)
    return z["X"][rows] * float(z["scale"]), z["y"][rows]


def _cub200() -> tuple[Any, Any]:
    z = read("cub200")
    rows = z["is_train"].astype(bool)
    return z["X"][rows] * float(z["scale"]), z["y"][rows]


def _silhouettes(n: int) -> tuple[Any, Any]:
    """n random silhouettes, 28 x 28 bits each."""
    z = read("caltech")
    bits = np.unpackbits(z["X"], axis=1)[:, : int(z["n_features"])].astype(np.float64)
    rows = np.random.default_rng(0).permutation(len(bits))[:n]
    return bits[rows], z["y"][rows]


def _news20_counts() -> tuple[Any, Any]:
    z = read("news20")
    parts = (z["X_train_data"], z["X_train_indices"], z["X_train_indptr"])
    return sp.csr_matrix(parts, shape=z["X_train_shape"], dtype=np.float64), z["y_train"]


def _news20() -> tuple[Any, Any]:
    """tf-idf with rows of norm 1, CSR."""
    from sklearn.feature_extraction.text import TfidfTransformer

    counts, y = _news20_counts()
    return sp.csr_array(TfidfTransformer().fit_transform(counts)), y


_LOADERS: dict[str, Callable[[], tuple[Any, Any]]] = {
    "usps": lambda: _plain("usps"),
    "isolet": lambda: _plain("isolet"),
    "pendigits": lambda: _plain("pendigits"),
    "flowers102": _flowers102,
    "cub200": _cub200,
    "caltech": lambda: _silhouettes(_CALTECH_TRAIN),
    "mnist": lambda: _plain("mnist"),
    "news20": _news20,
}
NAMES = tuple(_LOADERS)
SPARSE = ("news20",)


@lru_cache(maxsize=1)
def load(name: str, scaling: str) -> tuple[Any, Any]:
    """Training examples (an array, or CSR for news20) and labels 0, ..., m - 1."""
    X, y = _LOADERS[name]()
    return (X if sp.issparse(X) else _scaled(X, scaling)), _numbered(y)


@lru_cache(maxsize=5)
def load_paper(name: str) -> tuple[Any, Any]:
    """The experiments' versions: caltech as 16 x 16 images, news20 by 1,024 singular vectors.

    Those are of the tf-idf matrix, or as published of the counts.
    """
    if name == "caltech":
        X, y = _silhouettes(_CALTECH_PAPER)
        X = _shrunk(X)
    elif name == "news20":
        X, y = _reduced("", *_news20())
    elif name == "news20 counts":
        X, y = _reduced("counts", *_news20_counts())
    else:
        X, y = _LOADERS[name]()
    return _scaled(X, "unit"), _numbered(y)


def _scaled(X: Any, scaling: str) -> Any:
    if scaling == "unit":
        return np.ascontiguousarray(X / np.sqrt(np.einsum("ij,ij->", X, X) / len(X)))
    X = X - X.mean(axis=0)
    deviation = X.std(axis=0)
    return np.ascontiguousarray(X / np.where(deviation > 0, deviation, 1.0))


def _numbered(y: Any) -> Any:
    return np.unique(y, return_inverse=True)[1].astype(np.int64)


def _shrunk(X: Any, side: int = 28, to: int = 16) -> Any:
    """Images of ``side`` x ``side`` pixels, averaged over ``to`` x ``to`` larger ones."""
    edges = np.arange(to + 1) * side / to
    pixels = np.arange(side)
    overlap = np.minimum(edges[1:, None], pixels + 1) - np.maximum(edges[:-1, None], pixels)
    weights = np.clip(overlap, 0, None) * to / side
    images = X.reshape(-1, side, side)
    return np.einsum("ai,nij,bj->nab", weights, images, weights, optimize=True).reshape(len(X), -1)


def _reduced(kind: str, X: Any, y: Any) -> tuple[Any, Any]:
    """The singular value decomposition takes a minute, so it is kept in the temporary folder."""
    from sklearn.decomposition import TruncatedSVD

    size = min(_SVD_SIZE, *X.shape)
    file = Path(tempfile.gettempdir()) / f"cornerstep_news20{kind}_svd{size}.npy"
    if file.exists():
        reduced = np.load(file)
        if reduced.shape == (X.shape[0], size):
            return reduced, y
    reduced = TruncatedSVD(size, n_iter=2, random_state=0).fit_transform(X)
    np.save(file, reduced)
    return reduced, y


def load_raetsch(name: str, unique: bool = False) -> tuple[Any, Any]:
    """The pool of a Raetsch set: all its rows, or each of them once; labels -1 and 1."""
    z = read(f"raetsch_{name}")
    X, y = z["X"].astype(np.float64), z["y"].astype(np.float64)
    if not unique:
        return X, y
    rows = np.unique(np.column_stack([X, y]), axis=0, return_index=True)[1]
    return X[np.sort(rows)], y[np.sort(rows)]
