"""Joint kernel machines of r *landmarks*, some of the examples: ``s_j(x) = sum_l B_lj k(x_l, x)``.

That is the multi-class SVM on a subspace of the functions that the kernel has.  With T the Cholesky
factor of the landmarks' matrix, rows ``F = K_nL T'^-1`` are features whose inner products are those
of the subspace: a linear machine W on them is the machine ``B = T'^-1 W'``, and

``P(B) = 1/2 tr(B' K_LL B) + sum_i s_i Phi_mu(s(x_i); y_i)``

is its objective in the subspace and among all functions of the kernel alike.  Two bounds differ.
The dual points A of the linear machine prove ``D_F(A) = terms - 1/2 |F'A|²`` of all machines of
these landmarks, and ``D(A) = terms - 1/2 tr(A' K A)`` of all machines of the kernel.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.linalg import solve_triangular

from cornerstep.core.types import FloatArray, IntArray
from cornerstep.learning.kernel_blocks import InnerProductKernel, product_errors
from cornerstep.learning.kernel_low_rank import landmark_factor, landmark_features
from cornerstep.learning.rounding import Rounding, certified
from cornerstep.multiclass.examples import Examples
from cornerstep.multiclass.problem import MulticlassProblem
from cornerstep.multiclass.rounding import Reach, entry_sizes
from cornerstep.multiclass.training import Training
from cornerstep.optimiser.loop import Stopping
from cornerstep.optimiser.result import Status

_AFFORDABLE = 2**29  # kernel entries that the bound of the whole kernel may take: some 10 s
_BLOCK = 2**21  # of them at a time


class LandmarkExamples(Examples):
    """Rows F of landmark features.

    Parameters
    ----------
    kernel : InnerProductKernel
        Of all examples, with the constant.
    landmarks : array of int of shape (r,)
    triangle : array of shape (r, r)
        The Cholesky factor of their matrix.
    """

    def __init__(
        self, kernel: InnerProductKernel, landmarks: IntArray, triangle: FloatArray
    ) -> None:
        super().__init__(landmark_features(kernel, landmarks, triangle), sweeps=True)
        self.kernel_of, self.landmarks, self.triangle = kernel, landmarks, triangle

    @classmethod
    def chosen(
        cls, kernel: InnerProductKernel, rank: int, rng: np.random.Generator
    ) -> LandmarkExamples:
        """Of landmarks that are chosen here."""
        return cls(kernel, *landmark_factor(kernel, rank, rng))

    def machine(self, weights: FloatArray) -> FloatArray:
        """B, a row per landmark, of the weights of a linear machine, a row per class."""
        out = solve_triangular(self.triangle, weights.T, trans="T", lower=True)
        return np.ascontiguousarray(out)


class Numbers(NamedTuple):
    """P of a machine of landmarks and D of dual points, each with a bound of its rounding.

    Attributes
    ----------
    value, value_off : float
    bound, bound_off : float
        Of machines of these landmarks.
    whole : float
        A bound of all machines of the kernel, its rounding taken off: 0 where another would take
        too many kernel entries.
    """

    value: float
    value_off: float
    bound: float
    bound_off: float
    whole: float


def numbers(problem: MulticlassProblem, machine: FloatArray, dual: Any) -> Numbers:
    """What is true of coefficients of landmarks and of dual coefficients, from the kernel."""
    examples = problem.examples
    assert isinstance(examples, LandmarkExamples)
    kernel, landmarks = examples.kernel_of, examples.landmarks
    losses, sums = 0.0, np.zeros(landmarks.size)
    for block in problem.blocks():
        part = kernel.block(np.arange(block.start, block.stop), landmarks)
        losses += float(problem.block_losses(block, part @ machine).sum())
        sums += problem.scales[block] @ np.abs(part)
    gram = kernel.block(landmarks, landmarks)
    square = float((machine * (gram @ machine)).sum())
    peaks, costs = np.abs(machine).max(axis=1), problem.reach.costs
    mass = problem.loss.mass(problem.n_classes)
    among = Reach(
        sums + entry_sizes(product_errors(kernel, problem.scales))[landmarks], costs, mass,
        landmarks.size, problem.summed,
    )  # fmt: skip
    sizes = float((np.abs(machine) * (np.abs(gram) @ np.abs(machine))).sum())
    image = examples.image(dual)
    linear, ridge = _terms(problem, dual)
    reach = problem.dual_reach(dual)
    return Numbers(
        losses + 0.5 * square,
        among.of_value(peaks, sizes),
        linear - 0.5 * (ridge + float(np.vdot(image, image))),
        reach.of_bound(np.abs(image).max(axis=0), linear),
        _whole_bound(problem, kernel, dual, (linear, ridge)),
    )


def proven(
    problem: MulticlassProblem, trained: Training, stopping: Stopping
) -> tuple[Training, float]:
    """The training of a linear machine on landmark features as one of the machine of landmarks.

    Comes with the bound of all machines of the kernel.
    """
    assert isinstance(problem.examples, LandmarkExamples)
    machine, dual = problem.examples.machine(trained.weights), sp.csr_array(trained.coefficients)
    found, proof = numbers(problem, machine, dual), trained.proof
    look = certified(found.value, found.bound, Rounding(found.value_off, found.bound_off), ())
    short = proof.status is Status.SOLVED and look.gap > stopping.target(look.value)
    status = Status.PRECISION_LIMIT if short else proof.status
    proof = proof._replace(objective=look.value, bound=look.bound, gap=look.gap, status=status)
    trained = replace(trained, proof=proof, expansion=machine, coefficients=dual)
    return trained, min(found.whole, look.bound)


def _terms(problem: MulticlassProblem, dual: Any) -> tuple[float, float]:
    """``sum_i s_i <Delta_i, beta_i>`` and ``mu sum_i s_i |alpha_i|²`` of ``s_i alpha_i``."""
    linear = ridge = 0.0
    for block in problem.blocks():
        scales, labels = problem.scales[block], problem.labels[block]
        alpha = dual[block].toarray() / scales[:, None]
        loss = problem.loss.rows(block)
        linear += float(scales @ loss.gains(alpha, labels))
        ridge += problem.smoothing * float(scales @ loss.penalty(alpha, labels))
    return linear, ridge


def _whole_bound(
    problem: MulticlassProblem,
    kernel: InnerProductKernel,
    dual: Any,
    terms: tuple[float, float],
) -> float:
    """D among all functions of the kernel at the best multiple of the dual points."""
    support = np.flatnonzero(np.diff(dual.indptr))
    if support.size**2 > _AFFORDABLE:
        return 0.0
    (linear, square), mass = terms, problem.loss.mass(problem.n_classes)
    own, some = dual[support].toarray(), kernel.take(support)
    step = max(1, _BLOCK // max(support.size, 1))
    features, amounts = np.zeros(support.size), np.abs(own).sum(axis=1) / (2.0 * mass)
    for start in range(0, support.size, step):
        rows = np.arange(start, min(start + step, support.size))
        part = some.block(rows, None)
        square += float((own[rows] * (part @ own)).sum())
        features[rows] = np.abs(part) @ amounts
    features += entry_sizes(product_errors(some, amounts))
    peaks = np.abs(own).max(axis=1, initial=0.0)
    reach = Reach(features, problem.reach.costs, mass, support.size, support.size)
    share = min(linear / square, 1.0) if square > 0.0 else 1.0
    bound = share * linear - 0.5 * share**2 * square - reach.of_bound(peaks, linear)
    return max(bound, 0.0) if math.isfinite(bound) else 0.0
