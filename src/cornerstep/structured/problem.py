"""The structured SVM: ``P(w) = lambda/2 |w|² + sum_i p_i max_y (L_i(y) - w'psi_i(y))``,

``psi_i(y) = phi(x_i, y_i) - phi(x_i, y)``, p_i the example's share of the weights, 1/n if it has
none.  Its dual has a simplex over labelings for each example, ``D(a) = l - lambda/2 |w|²`` with
``w = sum_i p_i sum_y a_i(y) psi_i(y) / lambda`` and ``l = sum_i p_i sum_y a_i(y) L_i(y)``.  Any w
and any a certify each other.

Here: the examples of a problem with their batch oracles, for any model, and what the dual state of
all blocks has in common.  :mod:`.solvers.planes` has the blocks of any model,
:mod:`.solvers.chains` compiled ones for chains.

References
----------
.. [1] I. Tsochantaridis, T. Joachims, T. Hofmann, Y. Altun. Large margin methods for structured and
   interdependent output variables. Journal of Machine Learning Research 6, 1453-1484, 2005.
.. [2] S. Lacoste-Julien, M. Jaggi, M. Schmidt, P. Pletscher. Block-coordinate Frank-Wolfe
   optimization for structural SVMs. ICML 2013.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from sklearn.utils import _safe_indexing

from cornerstep.core.rounding import norm
from cornerstep.core.threads import n_workers
from cornerstep.core.types import FloatArray
from cornerstep.core.vectors import SparseVector, Vector
from cornerstep.optimiser.pieces import Pieces
from cornerstep.structured.compiled.parts import no_parts
from cornerstep.structured.models.base import StructuredModel, as_vector, items, shortened
from cornerstep.structured.proofs import bound_error, never
from cornerstep.structured.solvers.settings import BLOCK

#: Of |psi|²/L that n lambda is by default: docs/structured.md has what it is best for.
_SHARE = {"max-hinge": 0.1, "softmax": 0.02}
_SAMPLE = 100  # examples, as many times as they have weight, that tell |psi|² and L
_PROGRAM = 1e-9  # ten times the tolerance of linear programs whose costs have size 1
_SLACK = 1e-7  # by how much, relative to its score, rounding may put an answer below the truth
_COMPARED = 5  # answers of a full look that are compared with those of the plain decoder, at most
_FUNCTIONS = (
    "joint_feature", "loss", "loss_augmented_decode", "decode",
    "joint_feature_batch", "loss_augmented_decode_batch", "decode_batch",
)  # fmt: skip


class Corners(NamedTuple):
    """All examples' answers at one w: weighted sums of psi_i(y*) and L_i(y*), and the hinges."""

    image: FloatArray
    losses: float
    hinges: FloatArray


def add(target: FloatArray, vector: Vector, amount: float) -> None:
    """``target += amount * vector``."""
    if isinstance(vector, SparseVector):
        target[vector.indices] += amount * vector.values
    else:
        target += amount * vector


def dot(vector: Vector, w: FloatArray) -> float:
    """``<vector, w>``."""
    return float(vector @ w)


def example_weights(sample_weight: Any, n: int) -> FloatArray:
    """The weights of n examples, 1 each by default."""
    if sample_weight is None:
        return np.ones(n)
    try:
        weights = np.asarray(sample_weight).astype(np.float64)
    except (TypeError, ValueError):
        weights = np.empty(0)
    with np.errstate(over="ignore"):
        total = weights.sum()
    if weights.shape != (n,) or not ((weights >= 0).all() and 0 < total < np.inf):
        raise ValueError(
            f"sample_weight must be {n} finite numbers >= 0, one for each example, not all zero "
            f"and with a finite sum, got {shortened(sample_weight)}"
        )
    return weights


def lam_of(svm: Any, model: StructuredModel, X: Any, y: Any, weights: FloatArray) -> float:
    """lambda: as given, ``1/(C n)``, or the choice of 'auto'; n is the sum of the weights."""
    if not isinstance(svm.lam, str):
        return float(svm.lam)
    n = float(weights.sum())
    made = _scale(model, X, y, weights, svm.loss) / n if svm.C is None else 1.0 / (svm.C * n)
    if not 0 < made < np.inf:
        raise ValueError(
            "the joint features are too large for lam='auto': lambda must be positive and finite, "
            f"got {made}"
            if svm.C is None
            else "C must leave lambda = 1/(C times the sum of the weights) a positive number, got "
            f"{svm.C!r}"
        )
    return made


def prox_of(
    lam: float, model: StructuredModel, X: Any, y: Any, weights: FloatArray, loss: str
) -> float:
    """What makes a small lambda a share of the one that fits the data, or many times as large.

    It is 0 for a lambda that is not small.
    """
    alike = float(weights.sum()) ** 2 / float(weights @ weights)  # examples of equal weights
    fits = _scale(model, X, y, weights, loss) / alike
    stiff, raised = BLOCK.stiff, BLOCK.raised
    if loss == "softmax":
        stiff, raised = BLOCK.stiff_softmax, BLOCK.raised_softmax
    return min(max(stiff * fits - lam, 0.0), raised * lam)


def _scale(model: StructuredModel, X: Any, y: Any, weights: FloatArray, loss: str) -> float:
    """``share |psi|²/L``, means over a sample, at the labelings that w = 0 finds worst.

    So lambda does not depend on the units of features and losses.  Where all is 0 it is 1.  For
    softmax L is the number of labels.
    """
    ends = np.cumsum(weights)
    evenly = (np.arange(_SAMPLE) + 0.5) / _SAMPLE * ends[-1]  # weight 2 is as good as two
    chosen, counts = np.unique(np.searchsorted(ends, evenly), return_counts=True)
    xs, ys = _some(X, chosen), _some(y, chosen)
    numbered = [dict(zip(chosen, part, strict=True)) for part in (xs, ys)]
    examples = ModelExamples(model, numbered[0], numbered[1])
    found = model.loss_augmented_decode_batch(xs, ys, np.zeros(model.size))
    squares, losses, between = 0.0, 0.0, np.zeros(model.size)
    for i, answer, count in zip(chosen, found, counts, strict=True):
        truth, other = examples.truth(i), examples.feature(i, answer)
        add(between, truth, 1.0)
        add(between, other, -1.0)
        squares += count * (dot(truth, between) - dot(other, between))
        losses += count * (np.size(answer) if loss == "softmax" else examples.loss(i, answer))
        add(between, truth, -1.0)
        add(between, other, 1.0)
    return float(_SHARE[loss] * squares / losses) if squares > 0 and losses > 0 else 1.0


def _some(data: Any, chosen: Any) -> list[Any]:
    """Some examples of a list, an array, a sparse matrix or a table."""
    part = _safe_indexing(data.tocsr() if sp.issparse(data) else data, chosen)
    return items(part.to_numpy() if hasattr(part, "to_numpy") else part)


def weighed(X: Any, y: Any, weights: FloatArray) -> tuple[Any, Any, FloatArray]:
    """Examples, labelings and weights of at most 1, those of weight 0 left out."""
    weights = weights / weights.max()
    if weights.all():
        return X, y, weights
    kept = np.flatnonzero(weights)
    return _safe_indexing(X, kept), _safe_indexing(y, kept), weights[kept]


class Examples:
    """What examples of all kinds have in common.

    Parameters
    ----------
    n, size : int
        How many they are, and entries of w.
    weights : array of n, optional
        Above 0; 1 each by default.  Only their shares of ``total`` matter.
    """

    def __init__(self, n: int, size: int, weights: FloatArray | None = None) -> None:
        self.n, self.size = n, size
        self.weights = np.ones(n) if weights is None else weights
        self.total = float(self.weights.sum())
        self.oracle_calls = 0
        self.interrupted: Callable[[], bool] = never
        # shares are rounded: each weight, their sum, and products with them
        weighing = 0 if (self.weights == 1.0).all() else n + 8
        self.longest = weighing  # roundings of a score
        self.n_sums = weighing  # what the entries of an image are sums of

    def mean(self, values: FloatArray) -> float:
        """The weighted mean of a number of each example."""
        return float((self.weights * values).sum() / self.total)

    def admissible(self, w: FloatArray) -> FloatArray:
        """The nearest weights that the model allows."""
        return w

    def _wait(self) -> None:
        if self.interrupted():
            raise KeyboardInterrupt


class ModelExamples(Examples):
    """Examples of any model.

    Parameters
    ----------
    model : StructuredModel
        Prepared.
    X, Y : lists, or dictionaries of some by their numbers
    weights : array, optional
        Of the examples.
    n_jobs : int
        Workers of the batch oracles.  The answers do not depend on it.
    debug : bool
        Check every answer of the oracle.
    """

    def __init__(
        self,
        model: StructuredModel,
        X: Any,
        Y: Any,
        weights: FloatArray | None = None,
        n_jobs: int = 1,
        debug: bool = False,
    ) -> None:
        super().__init__(len(X), model.size, weights)
        self.model = model
        self.X, self.Y = X, Y
        self.n_jobs = n_jobs
        self.debug = debug
        self.longest += self.size + 64
        self.n_sums += 2 * self.n
        self.outside = 0.0  # by how much the z's leave their polytopes
        self._largest = 0.0  # norm of the joint features seen
        self._pieces = Pieces(BLOCK.chunk)
        self.parts: Any = no_parts()
        self.most_parts, self.table_size, self.n_rows = 1, 0, self.n

    def admissible(self, w: FloatArray) -> FloatArray:
        return self.model.admissible(w)

    def terms(self, w: FloatArray) -> float:
        """What ``sum_k |phi_k w_k|`` is at most, of the labelings seen."""
        return self._largest * norm(w)

    @property
    def inexact(self) -> float:
        """What decoding loses of its scores where a linear program is solved for it."""
        used = getattr(self.model, "inference_", ())
        return _PROGRAM if any(how.startswith("lp") for how in used) else 0.0

    @property
    def width(self) -> float:
        """What ``|phi(x, y)| + |phi(x, y')|`` is at most, of the labelings seen."""
        return 2.0 * self._largest

    def truth(self, i: int) -> Vector:
        """phi(x_i, y_i)."""
        return self.feature(i, self.Y[i])

    def feature(self, i: int, y: Any) -> Vector:
        """phi(x_i, y), checked."""
        vector = as_vector(self.model.joint_feature(self.X[i], y))
        if vector.size != self.size:
            raise ValueError(
                f"joint_feature must return {self.size} entries, got {vector.size} for example {i}"
            )
        values = vector.values if isinstance(vector, SparseVector) else vector
        if not np.isfinite(values).all():
            raise ValueError(f"joint_feature must be finite, got NaN or infinity for example {i}")
        self._largest = max(self._largest, norm(values))
        return vector

    def loss(self, i: int, y: Any) -> float:
        """L_i(y), checked."""
        value = float(self.model.loss(self.X[i], self.Y[i], y))
        if not 0 <= value < np.inf:
            raise ValueError(f"loss must be a number >= 0, got {value} for example {i}")
        return value

    def answer(self, i: int, w: FloatArray) -> Any:
        """The loss-augmented answer for one example."""
        self.oracle_calls += 1
        return self.model.loss_augmented_decode(self.X[i], self.Y[i], w)

    def hinge(self, i: int, y: Any, loss: float, feature: Vector, own: float, w: Any) -> float:
        """``L_i(y) - w'psi_i(y)`` of an answer, which may not be worse than the truth's 0.

        ``own`` is the score of the truth.
        """
        above = loss + dot(feature, w)
        if above - own < -_SLACK * (1 + abs(own)):
            raise ValueError(self._blame(i, w, above, own))
        if self.debug:
            self._check_stable(i, y, feature)
            self._check_best("loss_augmented_decode", i, above, w, self._listed(i), True)
            decoded = self.model.decode(self.X[i], w)
            self._check_decoded("decode", i, decoded, w, y)
        return above - own

    def _check_best(
        self, function: str, i: int, reached: float, w: FloatArray, others: Any, augmented: bool
    ) -> None:
        """Compare an answer with these labelings."""
        for other in others:
            value = dot(self.feature(i, other), w) + (self.loss(i, other) if augmented else 0.0)
            if value > reached + _SLACK * (1 + abs(reached)):
                raise ValueError(
                    f"{function} is probably wrong: its answer for example {i} scores "
                    f"{reached:.9g}, the labeling {other!r} scores {value:.9g}"
                )

    def _check_decoded(self, function: str, i: int, answer: Any, w: FloatArray, *seen: Any) -> None:
        """Compare an answer of ``decode`` with the truth and with labelings seen, if exact."""
        if self.model.exact:
            reached = dot(self.feature(i, answer), w)
            others = (self.Y[i], *seen, *self._listed(i))
            self._check_best(function, i, reached, w, others, False)

    def _listed(self, i: int) -> Any:
        """All labelings of an example, if the model lists them."""
        return self.model.labelings(self.X[i]) or ()

    def _check_some(self, w: FloatArray, answers: list[Any]) -> None:
        """Compare the answers for a few examples, others each time, with those of ``decode``.

        A decoder whose answers are bad, but never worse than the truth, makes all hinges small.
        """
        model = self.model
        if not model.exact or self.inexact or type(model).decode is StructuredModel.decode:
            return
        count = min(_COMPARED, -(-self.n // 10))
        for k in range(count):
            i = (self.oracle_calls // self.n + k * self.n // count) % self.n
            reached = self.loss(i, answers[i]) + dot(self.feature(i, answers[i]), w)
            other = model.decode(self.X[i], w)
            self._check_best("loss_augmented_decode", i, reached, w, (other,), True)

    def _check_decode_batch(self, w: FloatArray) -> None:
        """Compare each answer of ``decode_batch`` with that of ``decode``, which is checked."""
        batch = self.model.decode_batch(self.X, w)
        for i, (x, answer) in enumerate(zip(self.X, batch, strict=True)):
            single = self.model.decode(x, w)
            self._check_decoded("decode", i, single, w)
            self._check_decoded("decode_batch", i, answer, w, single)

    def _blame(self, i: int, w: FloatArray, answer: float, truth: float) -> str:
        """Which of the model's functions probably made an answer worse than the truth."""
        own = float(self.model.loss(self.X[i], self.Y[i], self.Y[i]))
        if own != 0:
            culprit = f"loss is probably wrong: loss(x, y, y) is {own}, not 0"
        else:
            culprit = (
                "loss_augmented_decode is probably wrong, or joint_feature or loss is not the one "
                "that it maximises"
            )
        return (
            f"the answer of loss_augmented_decode for example {i} scores {answer:.9g}, the truth "
            f"{truth:.9g}, though the answer must be the best labeling: {culprit}"
        )

    def _check_stable(self, i: int, y: Any, feature: Vector) -> None:
        again = self.feature(i, y)
        one, other = (v.dense() if isinstance(v, SparseVector) else v for v in (feature, again))
        if not np.array_equal(one, other):
            raise ValueError(
                f"joint_feature is probably wrong: two calls for example {i} answered differently"
            )
        if self.loss(i, self.Y[i]) != 0:
            raise ValueError(
                f"loss is probably wrong: loss(x, y, y) is {self.loss(i, self.Y[i])}, not 0, "
                f"for example {i}"
            )

    def _chunks(self) -> Iterator[slice]:
        for start in range(0, self.n, BLOCK.chunk):
            yield slice(start, min(start + BLOCK.chunk, self.n))

    def answers(self, w: FloatArray) -> list[Any]:
        """The loss-augmented answers for all examples, in chunks."""
        self.oracle_calls += self.n
        parts = self._decoded(w) if self.n_jobs == 1 else self._decoded_by_workers(w)
        answers = [answer for part in parts for answer in part]
        self._check_some(w, answers)
        if self.debug:
            self._check_decode_batch(w)
        return answers

    def _decoded(self, w: FloatArray) -> list[Any]:
        parts = []
        for piece in self._pieces(self.n):
            self._wait()
            parts.append(self.model.loss_augmented_decode_batch(self.X[piece], self.Y[piece], w))
        return parts

    def _decoded_by_workers(self, w: FloatArray) -> list[Any]:
        from joblib import Parallel, delayed

        decode = self.model.loss_augmented_decode_batch
        parts = []
        with Parallel(
            n_jobs=self.n_jobs, prefer=self.model.workers, return_as="generator"
        ) as parallel:
            for part in parallel(delayed(decode)(self.X[s], self.Y[s], w) for s in self._chunks()):
                parts.append(part)
                self._wait()
        return parts

    def corners(self, w: FloatArray) -> Corners:
        """The vertex of every block that w points to, summed up."""
        image, losses, hinges = np.zeros(self.size), 0.0, np.empty(self.n)
        for i, y in enumerate(self.answers(w)):
            self._wait()
            truth, feature, loss = self.truth(i), self.feature(i, y), self.loss(i, y)
            hinges[i] = self.hinge(i, y, loss, feature, dot(truth, w), w)
            add(image, truth, self.weights[i])
            add(image, feature, -self.weights[i])
            losses += self.weights[i] * loss
        return Corners(image, losses, hinges)

    def hinges(self, w: FloatArray) -> FloatArray:
        """The structured hinge of every example."""
        return np.array(
            [
                self.hinge(i, y, self.loss(i, y), self.feature(i, y), dot(self.truth(i), w), w)
                for i, y in enumerate(self.answers(w))
            ]
        )

    def true_parts(self, i: int) -> tuple[Any, FloatArray]:
        """The entries of ``phi(x_i, y_i)`` that are not 0: places and values."""
        return entries(self.truth(i))

    def answer_in_parts(self, i: int, w: FloatArray, own: float) -> tuple[Any, FloatArray, float]:
        """The same of the loss-augmented answer for one example, and its loss.

        ``own`` is the score of the truth.
        """
        y = self.model.loss_augmented_decode(self.X[i], self.Y[i], w)
        feature, loss = self.feature(i, y), self.loss(i, y)
        self.hinge(i, y, loss, feature, own, w)
        return *entries(feature), loss

    @property
    def blocks_of(self) -> Any:
        """What a dual point in joint features belongs to."""
        return "features", self.size, self.X, self.Y

    @property
    def images_of(self) -> Any:
        """What a dual point in joint features belongs to."""
        return self.size, self.X, self.Y, self.weights

    def require_soft(self, geometry: str) -> None:
        """Complain if :meth:`prox` has nothing to ask the model."""
        if not hasattr(self.model, "part_scores"):
            raise ValueError(
                "solver='extragradient' needs a model that can soften its decoding (matchings, "
                "graphs and tags whose edges attract and, with debug=False, chains and "
                f"multi-class), got {self.model!r}"
            )
        if hasattr(self.model, "require_soft"):
            self.model.require_soft(geometry)

    def prox(
        self, geometry: str, stages: Sequence[tuple[FloatArray, float, float]]
    ) -> tuple[FloatArray, float]:
        """Weighted sums of psi_i and L_i at a point made of one prox step for each stage.

        A stage ``(w, scale, temperature)`` adds ``scale F_i'w + temperature c_i`` to the mirror
        image of z_i, from the centre on: see :mod:`.structured_extragradient`.
        """
        model: Any = self.model
        self.oracle_calls += self.n
        image, losses = np.zeros(self.size), 0.0
        for i in range(self.n):
            self._wait()
            x, y = self.X[i], self.Y[i]
            costs = model.part_costs(x, y)
            scores = [
                scale * model.part_scores(x, w) + temperature * costs
                for w, scale, temperature in stages
            ]
            if geometry == "entropic":
                z = model.soften(np.sum(scores, axis=0))
            else:
                z = model.centre(x)
                for score in scores:
                    z = model.project(x, z + score)
            if hasattr(model, "outside"):
                self.outside = max(self.outside, model.outside(z))
            add(image, self.truth(i), self.weights[i])
            add(image, model.part_feature(x, z), -self.weights[i])
            losses += self.weights[i] * float((costs * z).sum())
        return image, losses

    def prox_bounds(self, geometry: str) -> tuple[float, float]:
        """Means of the bounds that the model knows: see :mod:`.structured_extragradient`."""
        model: Any = self.model
        bounds = [model.prox_bounds(x, y, geometry) for x, y in zip(self.X, self.Y, strict=True)]
        squares, spreads = (self.weights[:, None] * bounds).sum(axis=0) / self.total
        return float(squares), float(spreads)

    def blocks(self, lam: float, keep: int, prox: float = 0.0) -> Any:
        """The dual state, at w = 0."""
        from cornerstep.structured.solvers.planes import PlaneBlocks

        return PlaneBlocks(self, lam, keep, prox)

    def subgradient_sweep(
        self, order: Any, lam: float, total: FloatArray, late: FloatArray, numbers: FloatArray
    ) -> None:
        """``total += c_i psi_i(y*)`` at ``w = total / (lam t)``, one example after the other.

        ``c_i`` is the example's weight over the mean weight.
        """
        for i in order:
            t, c = numbers[0], self.weights[i] * self.n / self.total
            w = total / (lam * t) if t > 0 else np.zeros(self.size)
            y = self.answer(i, w)
            truth, feature, loss = self.truth(i), self.feature(i, y), self.loss(i, y)
            self.hinge(i, y, loss, feature, dot(truth, w), w)
            numbers += (1.0, c * loss)
            for vector, amount in ((truth, c), (feature, -c)):
                add(total, vector, amount)
                add(late, vector, amount * t)


def entries(vector: Vector) -> tuple[Any, FloatArray]:
    """Places and values of a vector's entries other than 0."""
    if isinstance(vector, SparseVector):
        return vector.indices, vector.values
    places = np.flatnonzero(vector)
    return places, vector[places]


def pose_examples(
    model: Any, X: Any, y: Any, weights: FloatArray, n_jobs: int | None, debug: bool = False,
    loss: str = "max-hinge",
) -> Any:  # fmt: skip
    """The examples of a prepared model, checked: compiled ones for chains."""
    for encoding in ("encode_chains", "encode_parts"):
        _require_own_functions(type(model), encoding)
    if loss == "softmax":
        from cornerstep.structured.solvers.softmax import SoftChainExamples

        chains = model.encode_chains(X, y)
        return SoftChainExamples(chains, model.size, weights, n_workers(n_jobs))
    if hasattr(model, "encode_chains") and not debug:
        from cornerstep.structured.solvers.chains import ChainExamples

        return ChainExamples(model.encode_chains(X, y), model.size, weights, n_workers(n_jobs))
    model.check(X, y)
    if hasattr(model, "encode_parts") and not (debug or model.constrained):
        from cornerstep.structured.solvers.graphs import PartExamples

        return PartExamples(model, items(X), items(y), weights, n_workers(n_jobs))
    return ModelExamples(model, items(X), items(y), weights, n_workers(n_jobs), debug)


def _require_own_functions(kind: type, encoding: str) -> None:
    """Complain if a subclass redefines what the compiled form of a model would not ask."""
    owner = next((base for base in kind.__mro__ if encoding in vars(base)), kind)
    for name in _FUNCTIONS if owner is not kind else ():
        if getattr(kind, name) is not getattr(owner, name):
            raise TypeError(
                f"{kind.__name__} must not redefine {name}, which compiled code would not ask: "
                "derive a model with functions of its own from StructuredModel"
            )


class StructuredProblem(NamedTuple):
    """``min over w of P(w)``: examples (of any kind), lambda, and prox of :class:`DualBlocks`."""

    examples: Any
    lam: float
    prox: float = 0.0


class DualBlocks:
    """The dual state of all blocks: w, l, and what makes the weighted average of all points so far.

    ``v = sum over steps s of s(s-1)/2 (change of w)``, so that the average with weights growing
    like s is ``w - v / (t(t+1)/2)``: sparse steps stay sparse.

    Where lambda is small, blocks hinder each other.  Then they move in the problem with ``prox/2 |w
    - z|²`` added, a well-conditioned one of the same dual points: its w is ``(lambda w_a + prox z)
    / (lambda + prox)``, w_a being that of the dual point in the problem itself, and the centre z
    goes ahead of it after each pass.

    References
    ----------
    .. [3] H. Lin, J. Mairal, Z. Harchaoui. A universal catalyst for first-order optimization. NIPS
       2015.
    """

    remembers = True  # answers of the oracle: for corrective passes, and for w to be their mean

    def __init__(self, examples: Any, lam: float, keep: int, prox: float = 0.0) -> None:
        self.examples = examples
        self.lam = lam
        self.prox = prox
        self.stiff = lam + prox  # what steps have for lambda
        self.centre = self.anchor = self._before = np.zeros(examples.size)
        self.keep = keep  # planes a block remembers before those of weight 0 give way
        self.w = np.zeros(examples.size)
        self.v = np.zeros(examples.size)
        self.numbers = np.zeros(3)  # t, l, and l's counterpart of v
        self.gaps = np.full(examples.n, np.inf)
        self._steps = 0  # since w was computed from the planes

    @property
    def linear(self) -> float:
        """The number l."""
        return float(self.numbers[1])

    def dual(self) -> float:
        """``D = l - lambda/2 |w|²``."""
        w = self.w
        if self.prox:
            w = (self.stiff * w - self.prox * self.centre) / self.lam
        return self.linear - 0.5 * self.lam * float(w @ w)

    def go_ahead(self) -> None:
        """After a pass, move the centre beyond w along its way since the last one."""
        if self.prox:
            root = np.sqrt(self.lam / self.stiff)
            last, self._before = self._before, self.w.copy()
            ahead = self.w + (1 - root) / (1 + root) * (self.w - last)
            jump = self.prox / self.stiff * (ahead - self.centre)
            self.centre = ahead
            self.w += jump
            self.v += 0.5 * self.numbers[0] * (self.numbers[0] + 1.0) * jump

    def average(self) -> tuple[FloatArray, float]:
        """The w and l of the weighted average of the dual points of all steps so far."""
        t = self.numbers[0]
        if t == 0:
            return self.w.copy(), self.linear
        total = 0.5 * t * (t + 1)
        return self.w - self.v / total, float(self.linear - self.numbers[2] / total)

    def _n_terms(self) -> int:
        """What the entries of w, computed from the planes, are sums of."""
        raise NotImplementedError

    def dual_error(self) -> float:
        """By how much :meth:`dual` may be off by rounding."""
        n_terms = self._n_terms() + 8 * self._steps
        w = self.anchor if self.prox else self.w
        return bound_error(self.examples, self.lam, w, self.linear, n_terms)

    def sweep(self, order: Any, rule: str, remembered: bool) -> None:
        """Block steps in this order; with ``remembered`` the stored planes stand for the oracle."""
        raise NotImplementedError

    def rebuild(self) -> None:
        """Compute w and l anew from the planes."""
        self.anchor, self.numbers[1] = self._summed()
        self.w = self.anchor
        if self.prox:
            self.w = (self.lam * self.anchor + self.prox * self.centre) / self.stiff
        self._steps = 0

    def _summed(self) -> tuple[FloatArray, float]:
        """w_a and l of the planes."""
        raise NotImplementedError

    def _restored(self) -> None:
        """Begin at the w of new planes."""
        self.anchor, self.numbers[1] = self._summed()
        self.w, self.centre, self._before = self.anchor.copy(), self.anchor, self.anchor

    def state(self) -> Any:
        """The dual point itself: planes and weights, apart from lambda."""
        raise NotImplementedError

    def restore(self, state: Any) -> None:
        """Take up the dual point of another run on the same examples."""
        raise NotImplementedError
