"""A pass over the rows: the map-reduce that every method on all examples at once is made of.

Whoever *holds* the rows (examples, labels, scales and, where they are kept, dual points) answers a
pass.  Given the weights W it finds the vertices U that the scores ``W'x_i`` point to and gives back
reductions only: the image ``W(U) = sum_i s_i x_i u_i'``, ``l(U) = sum_i s_i <Delta_i, beta_i>``,
the losses, and what inner products of dual points need.  Methods see images and numbers, never
rows, so that they run on whatever can answer: :class:`LocalRows` here.

Products of float32 data are rounded, so that a kept image is ``W(A) + E``, and ``l - 1/2 |W|²``
need not be below the optimum.  What is subtracted is ``1/2 (|W| + e)²`` with e a bound of |E|: for
Gaussian vectors q_1, ..., q_16 the products ``W(A) q = sum_i s_i (x_i'q) alpha_i`` are kept in
float64, which costs 16/d of a product with the data, and ``|E|²`` is the mean of ``|E q|²``.  Five
times its root is below |E| with a probability under 1e-8, whatever E is.

References
----------
.. [1] H. Avron, S. Toledo. Randomized algorithms for estimating the trace of an implicit symmetric
   positive semi-definite matrix. Journal of the ACM 58, 8:1-8:34, 2011.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
import scipy.sparse as sp

from cornerstep.core.types import FloatArray
from cornerstep.learning.rounding import Rounding
from cornerstep.multiclass.examples import Examples
from cornerstep.multiclass.losses import Loss
from cornerstep.multiclass.problem import MulticlassProblem
from cornerstep.multiclass.rounding import peaks
from cornerstep.multiclass.solvers.provenance import (
    NOTHING,
    Provenance,
    Source,
    blend,
    later,
    source_of,
)

FEATURES = 4096  # up to which sums of x_i x_i' are formed
_ROUNDED = 2.0**-50  # of the trace of T: what its eigenvalues may be off by
PROBES, SAFETY = 16, 5.0  # vectors q, and the multiple of the error that they measure


class DualState(NamedTuple):
    """What is kept of dual points: their image, ``l``, and themselves where needed (else empty).

    Arrays are of the kind that the holder of the rows works with, and ``alpha`` may be whatever
    stands for dual points held elsewhere: sums and multiples of states are all that methods form.
    """

    image: Any
    linear: float
    alpha: Any  # one row per example, not scaled by s_i
    probed: Any  # W(A) times the vectors q, a column each, where the image is rounded
    steps: int = 0  # taken so far: the schedules go on from there
    provenance: Provenance | None = None  # how to find the points again; None if that is not known

    def towards(self, other: DualState, step: float) -> DualState:
        """``(1 - step) self + step other``."""
        return DualState(
            self.image + step * (other.image - self.image),
            self.linear + step * (other.linear - self.linear),
            self.alpha + step * (other.alpha - self.alpha),
            self.probed + step * (other.probed - self.probed),
            self.steps + 1,
            blend([(1.0 - step, self.provenance), (step, other.provenance)]),
        )

    def shrunk(self, factor: float) -> DualState:
        """The weights of a primal point, shorter; its ``l`` means nothing."""
        return self._replace(image=factor * self.image, linear=0.0, alpha=factor * self.alpha)


def mixture(states: Sequence[DualState], weights: FloatArray) -> DualState:
    """``sum_k weight_k state_k``."""
    parts = list(zip(weights.tolist(), states, strict=True))
    weight, state = parts[0]
    image, alpha = weight * state.image, weight * state.alpha
    probed, linear = weight * state.probed, weight * state.linear
    for weight, state in parts[1:]:
        image, alpha = image + weight * state.image, alpha + weight * state.alpha
        probed, linear = probed + weight * state.probed, linear + weight * state.linear
    provenance = blend([(weight, state.provenance) for weight, state in parts])
    return DualState(image, linear, alpha, probed, provenance=provenance)


class Pass(NamedTuple):
    """What a pass gives back.

    ``primal`` and ``state`` are those that it was made at: the given ones, unless rows were lost
    and are held anew.
    """

    primal: DualState
    state: DualState
    corner: DualState  # the vertices U
    losses: float  # sum s_i Phi_mu(W'x_i)
    vertex_losses: float  # sum s_i Phi(W'x_i + mu alpha_i), where Frank-Wolfe looks for vertices


class Envelopes(NamedTuple):
    """What a pass that smooths the losses gives back.

    The dual points are those that attain the envelopes.  They are not kept themselves, and their
    ``l`` is among the numbers, which are still where the pass was made: the sums of ``s_i Phi``,
    ``s_i <Delta_i, beta_i>``, ``s_i <beta_i, z_i>`` and ``s_i |alpha_i|²``.
    """

    nearest: DualState
    numbers: Any


class Rows(Protocol):
    """Who holds the rows, as the batch methods see it."""

    @property
    def xp(self) -> Any:
        """The functions of the library that images are of."""

    @property
    def moved(self) -> int | None:
        """Bytes moved between machines so far; None on one machine."""

    def zeros(self, *shape: int) -> Any:
        """In float64, where images are."""

    def send(self, numbers: FloatArray) -> Any:
        """Numbers, where images are."""

    def read(self, *arrays: Any) -> list[FloatArray]:
        """The entries of arrays as numbers here, one row each, all in one copy."""

    def zero_state(self, *, kept: bool = True) -> DualState:
        """The state of dual points 0, which are not kept themselves if ``kept`` is false."""

    def uniform(self) -> DualState:
        """The state of ``beta_j = R/m`` for all classes, with ``R = sum rho``: where none is wrong.

        It is the mean of the vertices that W = 0 may point to.  Of a loss that only has an oracle
        it is made of vertices too, one for each example, in random directions.
        """

    def corner(self, primal: DualState, state: DualState, *, nearest: bool) -> Pass:
        """A pass at the weights of ``primal`` and the dual points of ``state``.

        With smoothing the vertex is sought at ``W'x_i + mu alpha_i``, or with ``nearest`` it is the
        dual point that attains the envelope at ``W'x_i``.
        """

    def envelopes(self, image: Any, smoothing: float) -> Envelopes:
        """A pass that smooths the losses by as much as it is told."""

    def moments(self) -> Moments:
        """``sum_i s_i x_i x_i'``; with many features only its diagonal."""

    def losses(self, image: Any) -> float:
        """``sum_i s_i Phi_mu(W'x_i)`` from the data, in float64."""

    def rounding(self, primal: DualState, dual: DualState, square: float) -> Rounding:
        """The rounding in float64 of P, ``|W|²`` there being ``square``, and of D."""

    def square(self, state: DualState) -> float:
        """``|W|²``."""

    def ridge(self, alpha: Any) -> float:
        """``mu sum_i s_i |alpha_i|²``; 0 where dual points are not kept."""

    def inner(self, states: Sequence[DualState], other: DualState) -> FloatArray:
        """``<W, W'> + mu sum_i s_i <alpha_i, alpha_i'>`` of each state with another."""

    def mixture(self, states: Sequence[DualState], weights: FloatArray) -> DualState:
        """``sum_k weight_k state_k``."""

    def size(self, state: DualState) -> tuple[float, float]:
        """``|W|²``, and a bound of the rounding of the state's image: 0 in float64."""

    def probe_errors(self, state: DualState) -> Any:
        """``E q`` of the state's image, a column each: none in float64."""

    def refine(self) -> bool:
        """Use more exact products from now on; false if these are as exact as they get."""

    def coefficients(self, state: DualState) -> Any:
        """``s_i alpha_i``, one row per example, or what makes them when called.

        None where they are neither kept nor can be found again.
        """


def keeps_duals(problem: MulticlassProblem) -> bool:
    """Whether the dual points themselves are needed."""
    return bool(problem.smoothing) or problem.examples.kernel


class Probes:
    """Random vectors that measure the rounding of an image: none where it is in float64."""

    def __init__(self, problem: MulticlassProblem) -> None:
        examples = problem.examples
        count = 0 if examples.dtype == np.float64 else PROBES
        shape = examples.empty_image(count).shape
        self.image: FloatArray = np.random.default_rng(0).standard_normal(shape)
        self.products = np.empty((examples.n, count))  # x_i'q
        if count:
            for block in problem.blocks():
                self.products[block] = examples.scores(block, self.image, exact=True)
        self._sparse = examples.sparse

    def probe_errors(self, state: DualState) -> FloatArray:
        """``E q`` of the state's image."""
        return probe_errors(state, self.image, self._sparse)


def probe_errors(state: DualState, probes: FloatArray, sparse: bool) -> FloatArray:
    """``E q`` of a state: what its image and its probed products differ by."""
    if not probes.size:
        return state.probed
    return (state.image.T @ probes if sparse else state.image @ probes.T) - state.probed


def rounding(errors: FloatArray) -> float:
    """A bound of |E| from ``E q``."""
    return SAFETY * float(np.linalg.norm(errors)) / math.sqrt(PROBES)


class Moments:
    """``T = sum_i s_i x_i x_i'`` or its diagonal, on images.

    Parameters
    ----------
    matrix : array of shape (d, d) or (d,)
        T.
    identity : callable
        Gives the identity, of d x d numbers.
    xp : namespace
        The functions of the library that the matrix is of.
    sparse : bool
        Whether images have a row per feature.

    Raises
    ------
    ValueError
        If the numbers of T are not finite.
    """

    def __init__(
        self, matrix: Any, identity: Callable[[], Any], xp: Any, *, sparse: bool = False
    ) -> None:
        if not bool(xp.all(xp.isfinite(matrix))):
            raise ValueError("X is too large: its squares times C are not finite; scale X")
        self.matrix, self.identity, self.xp = matrix, identity, xp
        self.diagonal, self.sparse = len(matrix.shape) == 1, sparse

    def times(self, images: Any) -> Any:
        """``T W`` of an image, or of many at once."""
        return self._multiply(images, self.matrix)

    def inverse(self, factor: float) -> Callable[[Any], Any]:
        """What multiplies images by the inverse of ``I + factor T``."""
        if self.diagonal:
            inverse = 1.0 / (1.0 + factor * self.matrix)
        else:
            # a metric serves as well if it is off by as much as T is rounded, and can be inverted
            size = self.matrix.shape[0] * float(self.xp.linalg.trace(self.matrix))
            ridge = 1.0 + factor * _ROUNDED * size
            inverse = self.xp.linalg.inv(ridge * self.identity() + factor * self.matrix)
        return lambda images: self._multiply(images, inverse)

    def _multiply(self, images: Any, matrix: Any) -> Any:
        if not self.diagonal:
            return images @ matrix
        return images * (matrix[:, None] if self.sparse else matrix)


class StateAccumulator:
    """Dual points, block after block, on the way to their state."""

    def __init__(self, problem: MulticlassProblem, probes: Probes, *, kept: bool = True) -> None:
        self.problem, self.probes = problem, probes
        n = problem.examples.n if kept and keeps_duals(problem) else 0
        self.alpha = np.zeros((n, problem.n_classes))
        self.image = problem.examples.empty_image(problem.n_classes)
        self.probed = np.zeros((problem.n_classes, probes.products.shape[1]))
        self.linear = 0.0

    def add(self, block: slice, alpha: FloatArray) -> None:
        """Add the dual points of the examples of ``block`` to all but ``linear``."""
        if self.alpha.size:
            self.alpha[block] = alpha
        coefficients = self.problem.scales[block, None] * alpha
        self.problem.examples.add_image(self.image, block, coefficients)
        if self.probed.size:
            self.probed += coefficients.T @ self.probes.products[block]

    def state(self, provenance: Provenance | None = None) -> DualState:
        """What has been gathered."""
        return DualState(self.image, self.linear, self.alpha, self.probed, provenance=provenance)


class HostRows:
    """What rows have in common whose images are NumPy arrays of this process."""

    xp = np

    def zeros(self, *shape: int) -> FloatArray:
        return np.zeros(shape)

    def send(self, numbers: FloatArray) -> FloatArray:
        return numbers

    def read(self, *arrays: FloatArray) -> list[FloatArray]:
        return [np.ravel(array) for array in arrays]


class LocalRows(HostRows):
    """The rows of a problem in the memory of this process, as NumPy and compiled kernels see them.

    Parameters
    ----------
    problem : MulticlassProblem
    """

    moved: int | None = None

    def __init__(self, problem: MulticlassProblem) -> None:
        self.problem = problem
        self._probes = Probes(problem)
        self._moments: Moments | None = None

    def zero_state(self, *, kept: bool = True) -> DualState:
        return StateAccumulator(self.problem, self._probes, kept=kept).state(NOTHING)

    def gathered(self, alpha: FloatArray) -> DualState:
        """The state of these dual points, from the data."""
        return self._gather(lambda block: alpha[block])

    def uniform(self) -> DualState:
        return self._gather(self._uniform)._replace(provenance=source_of("uniform"))

    def _uniform(self, block: slice) -> FloatArray:
        problem = self.problem
        labels, loss = problem.labels[block], problem.loss
        if not isinstance(loss, Loss):  # vertices, each in a direction of its own
            rng = np.random.default_rng(block.start)
            scores = rng.random((labels.size, problem.n_classes))
            return -loss.rows(block).subgradient(scores, labels)
        total = loss.mass(problem.n_classes)
        out = np.full((labels.size, problem.n_classes), -total / problem.n_classes)
        out[np.arange(labels.size), labels] += total
        return out

    def rebuilt(self, provenance: Provenance) -> Any:
        """``s_i alpha_i`` as a sparse matrix; not of what block ascent holds."""
        problem, parts = self.problem, []
        for block in problem.blocks():
            alpha = np.zeros((problem.labels[block].size, problem.n_classes))
            for weight, source in provenance:
                alpha += weight * self._points(block, source)
            parts.append(sp.csr_array(problem.scales[block, None] * alpha))
        return sp.vstack(parts, "csr")

    def _points(self, block: slice, source: Source) -> FloatArray:
        problem = self.problem
        if source.task == "uniform":
            return self._uniform(block)
        scores = problem.examples.scores(block, source.image, exact=not source.quick)
        if source.task == "nearest":
            loss, labels = problem.loss.rows(block), problem.labels[block]
            return loss.dual_point(scores, labels, source.smoothing)
        return problem.corners(scores, block, np.empty((0, problem.n_classes)))[0]

    def _gather(self, points: Callable[[slice], FloatArray]) -> DualState:
        problem = self.problem
        gathering = StateAccumulator(problem, self._probes)
        for block in problem.blocks():
            alpha = points(block)
            deltas = problem.loss.rows(block).deltas(problem.labels[block], problem.n_classes)
            gathering.add(block, alpha)
            gathering.linear -= float(np.vdot(problem.scales[block, None] * alpha, deltas))
        return gathering.state()

    def corner(self, primal: DualState, state: DualState, *, nearest: bool) -> Pass:
        problem, examples = self.problem, self.problem.examples
        gathering = StateAccumulator(problem, self._probes)
        losses = vertex_losses = 0.0
        for block in problem.blocks():
            scores = examples.scores(block, primal.image)
            loss, labels = problem.loss.rows(block), problem.labels[block]
            scales = problem.scales[block]
            if problem.smoothing and nearest:
                corner = loss.dual_point(scores, labels, problem.smoothing)
                deltas = loss.deltas(labels, problem.n_classes)
                weight = scales[:, None] * corner
                losses -= float((weight * (scores + deltas)).sum())
                losses -= 0.5 * problem.smoothing * float((weight * corner).sum())
                gathering.linear -= float((weight * deltas).sum())
            else:
                here = state.alpha[:0]
                if problem.smoothing:
                    losses += float(problem.block_losses(block, scores).sum())
                    here = state.alpha[block]
                corner, part, costs = problem.corners(scores, block, here)
                vertex_losses += part
                gathering.linear += costs
            gathering.add(block, corner)
        losses = losses if problem.smoothing else vertex_losses
        provenance = None if problem.smoothing else source_of("corner", primal.image)
        return Pass(primal, state, gathering.state(provenance), losses, vertex_losses)

    def envelopes(self, image: FloatArray, smoothing: float) -> Envelopes:
        problem, examples = self.problem, self.problem.examples
        gathering = StateAccumulator(problem, self._probes, kept=False)
        losses = products = ridge = 0.0
        for block in problem.blocks():
            scores = examples.scores(block, image)
            loss, labels = problem.loss.rows(block), problem.labels[block]
            scales = problem.scales[block]
            values, alpha = loss.smoothed(scores, labels, smoothing)
            linear = float(scales @ loss.gains(alpha, labels))
            envelopes = float(scales @ values)
            dots = linear - float(scales @ np.einsum("ij,ij->i", alpha, scores))
            losses += envelopes if loss.entropic else float(scales @ loss.value(scores, labels))
            products += dots
            ridge += float(scales @ loss.penalty(alpha, labels))
            gathering.linear += linear
            gathering.add(block, alpha)
        nearest = gathering.state(source_of("nearest", image, smoothing))
        return Envelopes(nearest, np.array([losses, nearest.linear, products, ridge]))

    def moments(self) -> Moments:
        if self._moments is None:
            self._moments = moments_of(self.second_moments(), self.problem.examples.sparse)
        return self._moments

    def second_moments(self) -> FloatArray:
        """``sum_i s_i x_i x_i'``, or its diagonal where that is too large."""
        examples = self.problem.examples
        assert isinstance(examples, Examples)
        return examples.moments(self.problem.scales, FEATURES)

    def losses(self, image: FloatArray) -> float:
        return self.problem.losses(image)

    def rounding(self, primal: DualState, dual: DualState, square: float) -> Rounding:
        problem, reach = self.problem, self.problem.reach
        images = [primal.image, dual.image]
        if problem.examples.kernel:
            images = [(problem.scales[:, None] * state.alpha).T for state in (primal, dual)]
        of_value, of_bound = (peaks(image, problem.examples.sparse) for image in images)
        return Rounding(
            reach.of_value(of_value, square), reach.of_bound(of_bound, dual.linear, dual.steps)
        )

    def square(self, state: DualState) -> float:
        if self.problem.examples.kernel:
            square = float(np.vdot(self.problem.scales[:, None] * state.alpha, state.image.T))
            return max(square, 0.0)  # of a matrix that is singular, rounding may be below
        return float(np.vdot(state.image, state.image))

    def ridge(self, alpha: FloatArray) -> float:
        if not (self.problem.smoothing and alpha.shape[0]):
            return 0.0
        problem = self.problem
        return problem.smoothing * float(
            problem.scales @ problem.loss.penalty(alpha, problem.labels)
        )

    def inner(self, states: Sequence[DualState], other: DualState) -> FloatArray:
        problem = self.problem
        kept = bool(other.alpha.shape[0])
        weighted = problem.scales[:, None] * other.alpha if kept else other.alpha
        image = weighted.T if problem.examples.kernel else other.image
        out = np.empty(len(states))
        for k, state in enumerate(states):
            out[k] = np.vdot(state.image, image)
            if problem.smoothing and kept:
                out[k] += problem.smoothing * np.vdot(state.alpha, weighted)
        return out

    def mixture(self, states: Sequence[DualState], weights: FloatArray) -> DualState:
        return mixture(states, weights)

    def size(self, state: DualState) -> tuple[float, float]:
        return self.square(state), rounding(self.probe_errors(state))

    def probe_errors(self, state: DualState) -> FloatArray:
        return self._probes.probe_errors(state)

    def refine(self) -> bool:
        return False

    def coefficients(self, state: DualState) -> Any:
        if state.alpha.shape[0]:
            return self.problem.scales[:, None] * state.alpha
        if state.provenance is None:
            return None
        return later(self.rebuilt, state.provenance, self.problem.digest)


def moments_of(matrix: FloatArray, sparse: bool) -> Moments:
    """Moments, or their diagonal, in NumPy."""
    return Moments(matrix, lambda: np.eye(matrix.shape[0]), np, sparse=sparse)


def rows_of(problem: MulticlassProblem) -> Rows:
    """Who holds the rows of a problem: decided by the kind of its examples."""
    return LocalRows(problem)
