"""Multi-label classification: a binary label for each of m tags,

``w'phi(x, y) = sum_j y_j <w_j, x> + sum over edges (j, k) of V_jk[y_j, y_k]``.

References
----------
.. [1] C. K. Chow, C. N. Liu. Approximating discrete probability distributions with dependence
   trees. IEEE Transactions on Information Theory 14, 462-467, 1968.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from scipy.sparse.csgraph import minimum_spanning_tree
from sklearn.base import BaseEstimator

from cornerstep.core.types import FloatArray
from cornerstep.structured.compiled.parts import Parts
from cornerstep.structured.models.base import shortened
from cornerstep.structured.models.cut import CutModel
from cornerstep.structured.models.inference import Inference, factor_of, shapes_of

_ENUMERABLE = 12


class MultilabelModel(BaseEstimator, CutModel):
    r"""Any number of tags for each example, in pairs that may attract or repel; Hamming loss.

    .. math:: \sum_j y_j \langle w_j, x \rangle + \sum_{jk} V_{jk}(y_j, y_k)

    Examples are the rows of an array or CSR matrix, labelings the rows of a 0/1 array.

    Parameters
    ----------
    edges : None, 'tree', 'full' or array of shape (e, 2), default=None
        Which pairs of tags depend on each other: none, the tree of largest mutual information in
        the training data, all, or these.
    fit_intercept : bool, default=True
        Add a constant feature 1.
    normalize : bool, default=True
        Whether the loss is divided by the number of tags.
    attractive : bool, default=False
        Allow only weights whose edges attract, ``V_jk[0, 0] + V_jk[1, 1] >= V_jk[0, 1] +
        V_jk[1, 0]``, so that every decoding is a minimum cut.  For ``solver="extragradient"``,
        which solves the problem with this constraint.

    Attributes
    ----------
    n_labels_, n_features_, size : int
    edges_ : array of shape (e, 2)
    inference_ : Counter
        How often which algorithm decoded: 'independent', 'tree', 'min-cut', 'enumeration', 'lp',
        'lp, fractional' (see :class:`GraphModel`).
    """

    def __init__(
        self,
        edges: Any = None,
        fit_intercept: bool = True,
        normalize: bool = True,
        attractive: bool = False,
    ) -> None:
        self.edges = edges
        self.fit_intercept = fit_intercept
        self.normalize = normalize
        self.attractive = attractive

    def prepare(self, X: Any, Y: Any) -> None:
        self.prepare_weighted(X, Y, np.ones(len(_binary(Y, None, "Y"))))

    def prepare_weighted(self, X: Any, Y: Any, weights: FloatArray) -> None:
        labels = _binary(Y, None, "Y")
        self.n_labels_ = labels.shape[1]
        self.n_features_ = _rows(X).shape[1]
        self.edges_ = self._chosen_edges(labels, weights)
        self.inference_: Counter[str] = Counter()
        self._inference = Inference(self.n_labels_, self.edges_, 2, self.inference_)
        width = self.n_features_ + bool(self.fit_intercept)
        self.size = self.n_labels_ * width + 4 * len(self.edges_)

    def _chosen_edges(
        self, labels: npt.NDArray[np.int64], weights: FloatArray
    ) -> npt.NDArray[np.int64]:
        m, edges = self.n_labels_, self.edges
        if edges is None:
            return np.empty((0, 2), np.int64)
        if isinstance(edges, str):
            if edges == "full":
                return np.array(list(itertools.combinations(range(m), 2)), np.int64).reshape(-1, 2)
            if edges == "tree":
                return _tree(labels, weights)
        else:
            given = np.asarray(edges)
            pairs = given.ndim == 2 and given.shape[1] == 2 and given.dtype.kind in "iu"
            inside = pairs and given.size and 0 <= given.min() <= given.max() < m
            if inside and (given[:, 0] != given[:, 1]).all():
                return given.astype(np.int64)
        raise ValueError(
            f"edges must be None, 'tree', 'full' or pairs of different tags from 0 to {m - 1}, "
            f"got {edges!r}"
        )

    def check(self, X: Any, Y: Any = None) -> None:
        rows = _rows(X)
        if rows.shape[1] != self.n_features_:
            raise ValueError(f"X must have {self.n_features_} features, got {rows.shape[1]}")
        if Y is not None:
            labels = _binary(Y, self.n_labels_, "Y")
            if len(labels) != rows.shape[0]:
                raise ValueError(f"Y must have {rows.shape[0]} rows, got {len(labels)}")

    def _row(self, x: Any) -> FloatArray:
        row = x.toarray().ravel() if sp.issparse(x) else np.asarray(x, dtype=np.float64).ravel()
        return np.append(row, 1.0) if self.fit_intercept else row

    def inference_of(self, x: Any) -> Inference:
        return self._inference

    def encode_parts(self, X: Sequence[Any], Y: Any) -> Parts:
        """The examples with their labelings, for compiled decoding and steps."""
        rows, n, m, e = _rows(X), len(X), self.n_labels_, len(self.edges_)
        if self.fit_intercept:
            rows = sp.hstack([sp.csr_array(rows), np.ones((n, 1))])
        nodes = factor_of(rows, np.ones(n), m, 0, 1, rows.shape[1])
        pairs = factor_of(sp.eye_array(e), np.full(n, e), 4, m * rows.shape[1], 4, 1)
        shapes = shapes_of([(m, self.edges_)], 2, np.zeros(n, np.int64))
        costs = np.full(n * m, 1.0 / m if self.normalize else 1.0)
        ptr = np.arange(n + 1, dtype=np.int64) * m
        pairs = pairs._replace(first=np.zeros(n, np.int64))  # the same for all examples
        return Parts(False, nodes, pairs, 2, True, ptr, _binary(Y, m, "Y").ravel(), costs, shapes)

    def _scores(self, x: Any, w: FloatArray) -> tuple[FloatArray, FloatArray]:
        row = self._row(x)
        nodes = np.zeros((self.n_labels_, 2))
        at = self.n_labels_ * row.size
        nodes[:, 1] = w[:at].reshape(self.n_labels_, -1) @ row
        return nodes, w[at:].reshape(-1, 2, 2)

    def joint_feature(self, x: Any, y: Any) -> FloatArray:
        nodes, pairs = self._inference.marginals(y)
        return np.concatenate([np.outer(nodes[:, 1], self._row(x)).ravel(), pairs.ravel()])

    def loss(self, x: Any, y: Any, y_hat: Any) -> float:
        nodes, _ = self._inference.marginals(y_hat)
        wrong = float(nodes[np.arange(self.n_labels_), 1 - np.asarray(y, np.int64)].sum())
        return wrong / self.n_labels_ if self.normalize else wrong

    def loss_augmented_decode(self, x: Any, y: Any, w: FloatArray) -> Any:
        nodes, pairs = self._scores(x, w)
        nodes += self._node_costs(x, y)
        return self._inference.best(nodes, pairs, relaxed=True)

    def _node_costs(self, x: Any, y: Any) -> FloatArray:
        costs = np.full((self.n_labels_, 2), 1.0 / self.n_labels_ if self.normalize else 1.0)
        costs[np.arange(self.n_labels_), np.asarray(y, np.int64)] = 0.0
        return costs

    def _square(self, x: Any, degree: int) -> float:
        row = self._row(x)
        return float(row @ row) + degree

    def decode(self, x: Any, w: FloatArray) -> Any:
        return self._inference.best(*self._scores(x, w))

    def decode_batch(self, X: Any, w: FloatArray) -> Any:
        return np.array([self.decode(x, w) for x in (X if not sp.issparse(X) else _split(X))])

    def complete(self) -> None:
        self.inference_ = Counter()
        self._inference = Inference(self.n_labels_, self.edges_, 2, self.inference_)

    def split(self, w: FloatArray) -> dict[str, FloatArray]:
        """The weights by name: 'coef' (m, d), perhaps 'intercept' (m,), and 'edges' (e, 2, 2)."""
        at = self.n_labels_ * (self.n_features_ + bool(self.fit_intercept))
        W = w[:at].reshape(self.n_labels_, -1)
        parts = {"coef": W[:, : self.n_features_], "edges": w[at:].reshape(-1, 2, 2)}
        if self.fit_intercept:
            parts["intercept"] = W[:, -1]
        return parts

    def labelings(self, x: Any) -> Iterable[Any] | None:
        if self.n_labels_ > _ENUMERABLE:
            return None
        return map(np.array, itertools.product((0, 1), repeat=self.n_labels_))


def _split(X: Any) -> list[Any]:
    X = sp.csr_array(X)
    return [X[[i]] for i in range(X.shape[0])]


def _rows(X: Any) -> Any:
    from sklearn.utils import check_array

    if isinstance(X, Sequence) and len(X) and sp.issparse(X[0]):
        X = sp.vstack(X, "csr")
    return check_array(X, accept_sparse="csr", dtype=np.float64, input_name="X")


def _binary(Y: Any, n_labels: int | None, name: str) -> npt.NDArray[np.int64]:
    try:
        labels = np.asarray(Y.toarray() if sp.issparse(Y) else Y)
    except ValueError:  # rows of different lengths
        labels = np.empty(0, object)
    if labels.ndim != 2 or labels.dtype.kind not in "iubf":
        raise ValueError(f"{name} must be rows of 0 and 1, one column per tag, got {shortened(Y)}")
    strange = labels[~np.isin(labels, (0, 1))]
    if strange.size:
        raise ValueError(f"{name} must be rows of 0 and 1, one column per tag, got {strange[0]}")
    if n_labels is not None and labels.shape[1] != n_labels:
        raise ValueError(f"{name} must have {n_labels} columns, got {labels.shape[1]}")
    return labels.astype(np.int64)


def _tree(labels: npt.NDArray[np.int64], weights: FloatArray) -> npt.NDArray[np.int64]:
    """The spanning tree of largest mutual information between tags (Chow and Liu)."""
    m, total = labels.shape[1], weights.sum()
    information = np.zeros((m, m))
    both = np.stack([1 - labels, labels]).astype(float)
    weighed = weights[:, None] * both
    single = weighed.sum(axis=1) / total
    for a, b in itertools.product((0, 1), repeat=2):
        joint = both[a].T @ weighed[b] / total
        expected = np.outer(single[a], single[b])
        with np.errstate(divide="ignore", invalid="ignore"):
            information += np.where(joint > 0, joint * np.log(joint / expected), 0.0)
    # weights must be positive to count as edges: the smallest is the most informative
    tree = minimum_spanning_tree(np.triu(information.max() + 1.0 - information, 1)).tocoo()
    return np.column_stack([tree.row, tree.col]).astype(np.int64)
