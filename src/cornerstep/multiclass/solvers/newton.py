"""Truncated Newton steps on W, for losses with a second derivative: few products on the CPU.

``P(W) = 1/2 |W|² + sum_i s_i Phi_mu(W'x_i)`` has the gradient ``G = W - W(A)``, A the dual points
that attain the envelopes, so that ``P(W) - D(A) = 1/2 |G|²``: a small gradient is a certificate.
With ``B_i`` the second derivative of Phi_mu in the scores, the Hessian is

``H V = V + sum_i s_i x_i (B_i V'x_i)'``,

two products with the data.  An iteration:

1. Conjugate gradients for ``H V = -G``, until the gradient that is left, if P were its quadratic
   model, would be a certificate, or a tenth of what there is.
2. V is shortened until P falls enough.  A pass at the new weights gives P, A, W(A) and the B_i.

*Metric.*  ``H`` is about ``I + t_j T`` in class j, ``T = sum_i s_i x_i x_i'`` and t_j the mean
second derivative.  The largest eigenvalues of T, which are far above the others (what the examples
share), are found by one step of a randomised subspace iteration; the others count as equal.

*Intercepts that are not penalised* (:mod:`cornerstep.multiclass.free_intercept`) are found anew
wherever P is asked for, by Newton steps on scores that are known; D needs dual points that balance.

*Start.*  The best combination of the last few solutions, for other C on the way: in k numbers,
whose scores are known, Newton steps cost no product with the data.

*Precision.*  Where there is a float32 copy of large data, products with H read it, and so do passes
until a step should be the last: then the gradient is exact, and the steps refine it.  Where they do
not get on any more products become exact, too.  Gaps of rounded passes are estimates.

References
----------
.. [1] R. S. Dembo, S. C. Eisenstat, T. Steihaug. Inexact Newton methods. SIAM Journal on Numerical
   Analysis 19, 400-408, 1982.
.. [2] C.-J. Lin, R. C. Weng, S. S. Keerthi. Trust region Newton method for large-scale logistic
   regression. Journal of Machine Learning Research 9, 627-650, 2008.
.. [3] Z. Frangella, J. A. Tropp, M. Udell. Randomized Nyström preconditioning. SIAM Journal on
   Matrix Analysis and Applications 44, 718-752, 2023.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.linalg import eigh

from cornerstep.core.rounding import EPSILON
from cornerstep.core.threads import matmul
from cornerstep.core.types import FloatArray
from cornerstep.learning.rounding import Rounding, certified
from cornerstep.multiclass.examples import Examples
from cornerstep.multiclass.free_intercept import column_sums
from cornerstep.multiclass.problem import MulticlassProblem
from cornerstep.multiclass.rounding import peaks
from cornerstep.multiclass.solvers.passes import LocalRows
from cornerstep.multiclass.solvers.provenance import source_of
from cornerstep.optimiser.loop import Look, Move

NAME = "newton"

_DEPENDENT = 1e-5  # of the largest: eigenvalues of products of vectors in float32 that say nothing
_SINGLE = 1e15  # sums of squares up to which float32 has room, and above its inverse


@dataclass(frozen=True)
class NewtonSettings:
    """The numbers of truncated Newton steps.

    "Measured" is the CPU time of ten C over four decades on flowers102 (2,040 x 1,280 features, 102
    classes), to relative gaps of 1e-3; where nothing is said, none was.
    """

    forcing: float = 0.1
    """Share of the gradient that is left at which conjugate gradients stop.  Measured: 0.03 takes
    7 % more, 0.2 19 % more."""

    target_share: float = 0.6
    """Share of the gap asked for that a step aims at: they stop there as well.  Measured: 0.3 takes
    12 % more, 0.9 4 % less, and more steps that miss."""

    most_products: int = 500
    """Products with the Hessian in a step, at most."""

    rank: int = 50
    """Eigenvalues of T in the metric.  Measured: 1 takes 34 % more, 20 6 % more, 200 38 % more; on
    the pixels of usps 100 takes 18 % less, 10 29 % more."""

    kept: int = 3
    """Earlier solutions in the span of which a warm start begins.  Measured: 1 takes 84 % more, 2
    6 % more, 4 6 % more."""

    start_steps: int = 8
    """Newton steps in that span, at most."""

    intercept_steps: int = 100
    """Newton steps on intercepts that are not penalised, at each look, at most."""

    stiffness: float = 1e-10
    """What is added to second derivatives by intercepts, as a share of the largest they can be."""

    stiffer: float = 10.0
    """Factor on it after a step that did not lower P, up to 1; its inverse after others."""

    balance: float = 1e-15
    """Share of the masses of classes by which dual points may miss their balance: rounding."""

    decrease: float = 1e-4
    """Share of the slope by which P must fall for a step to be taken (Armijo)."""

    shortenings: int = 30
    """Halvings of a step before it is given up."""

    noise: float = 64.0
    """Roundings of P, in units of the last place, that count as no change."""

    stale: float = 0.01
    """Share of the gap by which P must fall in float32, unless the gap is halved: less is what
    rounding does, and products become exact."""


class Found(NamedTuple):
    """What a pass finds at some weights."""

    image: FloatArray
    value: float  # P
    dual: float  # D of the dual points that attain the envelopes
    off: float  # what rounding may take of D where dual points have to balance
    linear: float  # sum_i s_i (<Delta_i, beta_i> - mu/2 penalty)
    own: FloatArray  # W(A)
    shares: list[FloatArray]  # of each block: what the second derivatives are made of
    exact: bool
    mass: float  # of the dual points, where the loss has no bound of it
    shifted: tuple[FloatArray, FloatArray] | None  # weights and intercepts added, if they are free

    @property
    def gap(self) -> float:
        return max(self.value - self.dual, 0.0)


class _Shifted(NamedTuple):
    """Losses, ``sum_i s_i alpha_i``, its share of the masses, and second derivatives."""

    losses: float
    residual: FloatArray
    bend: FloatArray
    missing: float


def _square(image: FloatArray) -> float:
    return float(np.vdot(image, image))


class Products:
    """Products with the examples, blocks of rows at a time, in float32 or float64."""

    def __init__(self, problem: MulticlassProblem) -> None:
        assert isinstance(problem.examples, Examples)
        self.problem, self.examples = problem, problem.examples
        self.sparse = problem.examples.sparse
        self.blocks = list(problem.blocks())
        size = float(problem.scales @ problem.examples.norms)
        single = self.examples.quick.dtype == np.float32
        self.exact = not (single and 1.0 / _SINGLE < size < _SINGLE)
        self.trace = size  # of T
        self.mean: FloatArray | None = None  # of the features, where intercepts are free
        if problem.free:
            self.balance = problem.balance()
            self.mean = self.balance.mean.copy()
            self.mean[problem.constant_column] = 0.0
            self.trace -= problem.scales.sum() * float(self.mean @ self.mean)

    @property
    def kind(self) -> type:
        """What the Hessian is multiplied in."""
        return np.float64 if self.exact else np.float32

    def rows(self, block: slice, *, exact: bool = False) -> Any:
        """The examples of a block."""
        if exact or self.exact:
            return self.examples.data[block].astype(np.float64, copy=False)
        return self.examples.quick[block]

    def scores(self, rows: Any, image: FloatArray) -> FloatArray:
        """Scores of some examples."""
        image = image.astype(rows.dtype, copy=False)
        return np.asarray(matmul(rows, image if self.sparse else image.T))

    def image(self, rows: Any, coefficients: FloatArray) -> FloatArray:
        """The image of coefficients of some examples."""
        coefficients = coefficients.astype(rows.dtype, copy=False)
        return np.asarray(rows.T @ coefficients if self.sparse else matmul(coefficients.T, rows))

    def uncentred(self, image: FloatArray) -> FloatArray:
        """Weights of the features as they are, of weights of features without their mean."""
        if self.mean is None:
            return image
        image, mean = image.copy(), self.mean.astype(image.dtype, copy=False)
        self.problem.free_part(image)[:] -= mean @ image if self.sparse else image @ mean
        return image

    def centred(self, slope: FloatArray) -> FloatArray:
        """The derivative by weights of features without their mean."""
        if self.mean is None:
            return slope
        mean = self.mean.astype(slope.dtype, copy=False)
        free = self.problem.free_part(slope)
        return slope - (np.outer(mean, free) if self.sparse else np.outer(free, mean))

    def through(
        self, image: FloatArray, change: Callable[[int, FloatArray], FloatArray]
    ) -> FloatArray:
        """``sum_i x_i change(W'x_i)'``; ``change`` is given the number of a block.

        Where intercepts are free, x_i are without their mean: the intercepts make up for it.
        """
        total: Any = 0.0
        image = self.uncentred(image)
        for k, block in enumerate(self.blocks):
            rows = self.rows(block)
            total = total + self.image(rows, change(k, self.scores(rows, image)))
        return self.centred(np.asarray(total))


class Metric:
    """The inverse of ``I + t_j T``, as far as the largest eigenvalues of T tell."""

    def __init__(self, products: Products, rank: int) -> None:
        problem, self.sparse = products.problem, products.sparse
        d, kind = problem.examples.size, products.kind
        rank = min(rank, d, problem.examples.n)
        scales: Any = problem.scales.astype(kind)
        size = products.trace or 1.0
        weighted = [scales[block, None] / kind(size) for block in products.blocks]

        def spread(basis: FloatArray) -> FloatArray:
            """T, divided by its trace, times vectors, a column each."""
            image = basis if self.sparse else np.ascontiguousarray(basis.T)
            out = products.through(image, lambda k, scores: weighted[k] * scores)
            return out if self.sparse else out.T

        ways = spread(np.random.default_rng(0).standard_normal((d, rank)).astype(kind))
        sizes, turns = eigh((ways.T @ ways).astype(np.float64))
        sound = sizes > _DEPENDENT * sizes[-1]
        basis = ways @ (turns[:, sound] / np.sqrt(sizes[sound])).astype(kind)
        small = (basis.T @ spread(basis)).astype(np.float64)
        values, turns = eigh(0.5 * (small + small.T))
        self.basis = basis @ turns.astype(kind)
        self.values = size * np.maximum(values, 0.0)
        rest = products.trace - float(self.values.sum())
        self.rest = max(rest, 0.0) / max(d - self.values.size, 1)

    def at(self, bends: FloatArray) -> Callable[[FloatArray], FloatArray]:
        """What multiplies images by it, for these t_j."""
        kind = self.basis.dtype
        rest = (1.0 / (1.0 + bends * self.rest)).astype(kind)[:, None]
        more = (1.0 / (1.0 + bends[:, None] * self.values)).astype(kind) - rest
        basis = self.basis
        if self.sparse:
            return lambda image: rest.T * image + basis @ (more.T * (basis.T @ image))
        return lambda image: rest * image + (more * (image @ basis)) @ basis.T


class NewtonDescent:
    """Truncated Newton steps, for the loop.

    Parameters
    ----------
    problem : MulticlassProblem
        With a loss that has a second derivative, and no kernel.
    target : callable
        The gap that is asked for at a value of P.
    starts : sequence of arrays
        Images of earlier solutions, the last one nearest.
    settings : NewtonSettings, optional
    """

    monotone = True
    extra_columns = ("dual", "products")

    def __init__(
        self,
        problem: MulticlassProblem,
        target: Callable[[float], float],
        starts: Sequence[FloatArray] = (),
        settings: NewtonSettings | None = None,
    ) -> None:
        self.problem, self.target = problem, target
        self.settings = settings or NewtonSettings()
        self.products = Products(problem)
        self.expired: Callable[[], bool] = lambda: False
        self._starts = list(starts)
        self._metric: Metric | None = None
        self._found: Found | None = None
        self._best: Found | None = None  # the best dual points that an exact pass found
        self._exact = self.products.exact  # whether passes are
        self._count = 0

    @property
    def point(self) -> FloatArray:
        return self._here.image

    @property
    def _here(self) -> Found:
        if self._found is None:
            self._found = self.at(self._start())
        return self._found

    @property
    def state(self) -> list[FloatArray]:
        """To start another training from."""
        return [*self._starts, self.point][-self.settings.kept :]

    def weights_image(self) -> FloatArray:
        """The image of the point to return."""
        return self.point

    def coefficients(self) -> Any:
        """What makes ``s_i alpha_i`` of the dual points that prove the bound."""
        best, rows = self._best or self._here, LocalRows(self.problem)
        if best.shifted is not None:
            return partial(self._balanced_points, *best.shifted)
        origin = rows.zero_state(kept=False)
        source = source_of("nearest", best.image, self.problem.smoothing, quick=False)
        return rows.coefficients(origin._replace(provenance=source))

    def snapshot(self) -> dict[str, Any]:
        """The state as arrays by name, and the losses there."""
        image = self.point
        return {"primal": image, "losses": np.array(self.problem.losses(image))}

    def resume(self, arrays: dict[str, Any]) -> None:
        """Go on from a snapshot."""
        image, claimed = arrays["primal"], float(arrays["losses"])
        shape = self.problem.examples.empty_image(self.problem.n_classes).shape
        if image.shape != shape or not np.isfinite(image).all():
            raise ValueError("its primal is not of these examples and classes")
        losses = self.problem.losses(image)
        if not math.isclose(losses, claimed, rel_tol=1e-9):
            raise ValueError(f"the losses at its weights are {losses:.9g}, not {claimed:.9g}")
        self._starts, self._found = [image], None

    def look(self) -> Look:
        here = self._here
        if here.exact and (self._best is None or here.dual > self._best.dual):
            self._best = here
        dual = max(here.dual, self._best.dual) if self._best else here.dual
        gap = max(here.value - dual, 0.0)
        return Look(here.value, gap, certified=here.exact, extra=(dual, self._count))

    def move(self) -> Move:
        here, settings = self._here, self.settings
        direction, slope = self._direction(here)
        unit = EPSILON if here.exact and self._exact else float(np.finfo(np.float32).eps)
        noise = settings.noise * unit * abs(here.value)
        step = 1.0
        for _ in range(settings.shortenings):
            found = self.at(self._centred(here.image + step * direction))
            if found.value <= here.value + settings.decrease * step * slope + noise:
                break
            step *= 0.5
            if self.expired():
                return Move(0.0, NAME)
        else:
            self._refine(here)
            return Move(0.0, NAME)
        self._found = found
        much = settings.stale * min(here.gap, here.value)
        if here.value - found.value < much and found.gap > 0.5 * here.gap:
            self._refine(found)
        return Move(step, NAME)

    def _refine(self, found: Found) -> None:
        """Go on with exact products from there; if they are exact, this is as far as it goes."""
        if not self.products.exact:
            self._exact = self.products.exact = True
            self._metric = None
            self._found = self.at(found.image)

    def certify(self, point: FloatArray) -> Look:
        """P and D from the data in float64, with what rounding may have done to them."""
        if not (self._here.exact and self._here.image is point):
            self._exact = True
            self._found = self.at(point)
        look, best = self.look(), self._best
        assert best is not None
        problem, sparse = self.problem, self.problem.examples.sparse
        if not problem.loss.bounded:
            problem.widen(max(self._here.mass, best.mass))
        most = peaks(point, sparse)
        square = _square(problem.penalised(point))
        value, off = problem.value(look.value - 0.5 * square, point, square, most, best.dual)
        below = best.off + problem.reach.of_bound(peaks(best.own, sparse), best.linear)
        rounding = Rounding(off, below)
        return certified(value, best.dual, rounding, look.extra)

    def at(self, image: FloatArray) -> Found:
        """P, the envelopes and the dual points that attain them, at the weights of an image."""
        problem, products = self.problem, self.products
        known: list[FloatArray] = []
        residual = np.zeros(problem.n_classes)
        shifted = None
        if problem.free:
            known, shift = self._with_intercepts(image)
            shifted = image, shift
            image = image.copy()
            problem.free_part(image)[:] += shift / problem.constant
        own = problem.examples.empty_image(problem.n_classes)
        envelopes = linear = mass = 0.0
        shares = []
        for k, block in enumerate(products.blocks):
            rows, labels = products.rows(block, exact=self._exact), problem.labels[block]
            scales, loss = problem.scales[block], problem.loss.rows(block)
            scores = known[k] if known else products.scores(rows, image)
            scores = scores.astype(np.float64, copy=False)
            values, alpha = loss.smoothed(scores, labels, problem.smoothing)
            envelopes += float(scales @ values)
            linear += float(scales @ loss.gains(alpha, labels))
            linear -= 0.5 * problem.smoothing * float(scales @ loss.penalty(alpha, labels))
            scaled = scales[:, None] * alpha
            own += products.image(rows, scaled)
            if problem.free:
                residual += column_sums(scaled)
            if not loss.bounded:
                mass = max(mass, float(loss.sizes(alpha).max(initial=0.0)))
            shares.append(loss.shares(alpha, labels).astype(products.kind))
        value = envelopes + 0.5 * _square(problem.penalised(image))
        dual, off = linear - 0.5 * _square(own), 0.0
        if problem.free:
            columns = own if products.sparse else own.T
            square = _square(self.products.balance.balanced(columns, residual))
            dual = self.products.balance.bound(linear, square, residual)
            missed = self.products.balance.rounding(residual, len(products.blocks))
            off = dual - self.products.balance.bound(linear, square, residual, missed)
        return Found(image, value, dual, off, linear, own, shares, self._exact, mass, shifted)

    def curved(self, here: Found, image: FloatArray) -> FloatArray:
        """The Hessian times an image."""
        problem, products = self.problem, self.products
        scales: Any = problem.scales.astype(products.kind)
        mu = products.kind(problem.smoothing)

        def bent(k: int, scores: FloatArray) -> FloatArray:
            bends = problem.loss.bent(here.shares[k], scores, mu)
            bends *= scales[products.blocks[k], None]
            return bends

        self._count += 1
        return problem.penalised(image) + products.through(image, bent)

    def _direction(self, here: Found) -> tuple[FloatArray, float]:
        """Solve ``H V = -G`` by conjugate gradients, as far as it is worth; V and its slope."""
        settings, products = self.settings, self.products
        gradient = products.centred(self.problem.penalised(here.image) - here.own)
        metric = self._metric_at(here)
        unit = float(np.linalg.norm(gradient)) or 1.0  # float32 has no room for all scales
        residual: Any = (gradient / -unit).astype(products.kind)
        left = square = float(np.vdot(residual, residual))
        wanted = 2.0 * settings.target_share * self.target(here.value) / unit / unit
        enough = max(settings.forcing**2 * square, wanted)
        solution = np.zeros_like(residual)
        scaled = metric(residual)
        way, size = scaled, float(np.vdot(residual, scaled))
        for _ in range(settings.most_products):
            product = self.curved(here, way)
            bend = float(np.vdot(way, product))
            if not (size > 0.0 and bend > 0.0):  # all that is left is rounding
                break
            length = residual.dtype.type(size / bend)
            solution += length * way
            residual = residual - length * product
            left = float(np.vdot(residual, residual))
            if left <= enough or self.expired():
                break
            scaled = metric(residual)
            before, size = size, float(np.vdot(residual, scaled))
            way = scaled + residual.dtype.type(size / before) * way
        self._exact |= left <= wanted
        out = unit * solution.astype(np.float64)
        return products.uncentred(out), float(np.vdot(gradient, out))

    def _with_intercepts(self, image: FloatArray) -> tuple[list[FloatArray], FloatArray]:
        """The scores of all blocks with the intercepts where P is least, and these."""
        settings, problem = self.settings, self.problem
        scores = self._all_scores(image, self._exact)
        shift, unit = np.zeros(problem.n_classes), np.eye(problem.n_classes)
        unit *= float(problem.scales.sum()) / problem.smoothing  # no second derivative is larger
        here, stiff = self._at_shift(scores, shift), settings.stiffness
        for _ in range(settings.intercept_steps):
            if here.missing <= settings.balance or stiff > 1.0 or self.expired():
                break
            way = np.linalg.solve(here.bend + stiff * unit, here.residual)
            promise = float(here.residual @ way)
            told = promise > settings.noise * EPSILON * here.losses  # whether losses tell
            trial = self._at_shift(scores, shift + way)
            fallen = here.losses - trial.losses >= settings.decrease * promise
            if trial.missing <= 0.5 * here.missing or (told and fallen):
                shift, here = shift + way, trial
                stiff = max(stiff / settings.stiffer, settings.stiffness)
            else:
                stiff *= settings.stiffer if told else math.inf
        return [rows + shift for rows in scores], shift

    def _all_scores(self, image: FloatArray, exact: bool) -> list[FloatArray]:
        """The scores of all blocks."""
        products = self.products
        return [
            np.asarray(products.scores(products.rows(block, exact=exact), image), np.float64)
            for block in products.blocks
        ]

    def _balanced_points(self, image: FloatArray, shift: FloatArray) -> Any:
        """``s_i alpha_i`` as the bound has them: rounded otherwise, they would balance less."""
        problem, parts = self.problem, []
        scores = self._all_scores(image, exact=True)
        for block, rows in zip(self.products.blocks, scores, strict=True):
            loss, labels = problem.loss.rows(block), problem.labels[block]
            alpha = loss.smoothed(rows + shift, labels, problem.smoothing)[1]
            parts.append(sp.csr_array(problem.scales[block, None] * alpha))
        return sp.vstack(parts, "csr")

    def _at_shift(self, scores: list[FloatArray], shift: FloatArray) -> _Shifted:
        """Losses, and what they say of intercepts, at scores with a shift."""
        problem, losses = self.problem, 0.0
        residual = np.zeros(shift.size)
        bend = np.zeros((shift.size, shift.size))
        for block, rows in zip(self.products.blocks, scores, strict=True):
            labels, scales = problem.labels[block], problem.scales[block]
            loss = problem.loss.rows(block)
            values, alpha = loss.smoothed(rows + shift, labels, problem.smoothing)
            losses += float(scales @ values)
            residual += column_sums(scales[:, None] * alpha)
            bend += loss.bend_sum(loss.shares(alpha, labels), scales, problem.smoothing)
        return _Shifted(
            losses, residual, bend, float((np.abs(residual) / self.products.balance.masses).max())
        )

    def _metric_at(self, here: Found) -> Callable[[FloatArray], FloatArray]:
        problem, blocks = self.problem, self.products.blocks
        if self._metric is None:
            self._metric = Metric(self.products, self.settings.rank)
        total = sum(
            problem.scales[block] @ problem.loss.bends(shares, problem.smoothing)
            for block, shares in zip(blocks, here.shares, strict=True)
        )
        return self._metric.at(np.asarray(total) / problem.scales.sum())

    def _start(self) -> FloatArray:
        """The best combination of the earlier solutions."""
        images = self._starts
        if not images:
            return self.problem.examples.empty_image(self.problem.n_classes)
        span = _Span(self.problem, self.products, images)
        weights = np.zeros(len(images))
        weights[-1] = 1.0
        value, slope, bend = span.at(weights)
        for _ in range(self.settings.start_steps):
            way = -np.linalg.lstsq(bend, slope, rcond=None)[0]
            promise, step = -float(slope @ way), 1.0
            if not promise > 0.5 * self.target(value):
                break
            trial = span.at(weights + way)
            while not trial[0] <= value - self.settings.decrease * step * promise and step > 1e-3:
                step *= 0.5
                trial = span.at(weights + step * way)
            if not trial[0] < value:
                break
            weights = weights + step * way
            value, slope, bend = trial
        return self._centred(sum(w * image for w, image in zip(weights, images, strict=True)))

    def _centred(self, image: Any) -> FloatArray:
        """The weights without what all classes share, if losses do not see it: no more than P.

        Of two classes the model keeps the difference only.
        """
        if not self.problem.loss.of_differences and self.problem.n_classes > 2:
            return image
        out: FloatArray = image - image.mean(axis=1 if self.products.sparse else 0, keepdims=True)
        return out


class _Span:
    """P of combinations of a few images, whose scores are known."""

    def __init__(
        self, problem: MulticlassProblem, products: Products, images: Sequence[FloatArray]
    ) -> None:
        self.problem, self.blocks = problem, products.blocks
        own = [problem.penalised(image) for image in images]
        self.gram = np.array([[np.vdot(a, b) for b in own] for a in own])
        self.scores = [
            [products.scores(rows, image) for image in images]
            for rows in map(products.rows, products.blocks)
        ]

    def at(self, weights: FloatArray) -> tuple[float, FloatArray, FloatArray]:
        """Value, gradient and Hessian in the weights of the images."""
        problem, k = self.problem, weights.size
        value = 0.5 * float(weights @ self.gram @ weights)
        slope, bend = self.gram @ weights, self.gram.copy()
        for block, known in zip(self.blocks, self.scores, strict=True):
            labels, loss = problem.labels[block], problem.loss.rows(block)
            scales = problem.scales[block]
            scores = sum(w * s for w, s in zip(weights, known, strict=True))
            values, alpha = loss.smoothed(np.asarray(scores, np.float64), labels, problem.smoothing)
            value += float(scales @ values)
            shares = loss.shares(alpha, labels)
            for a in range(k):
                slope[a] -= float(scales @ np.einsum("ij,ij->i", alpha, known[a]))
                bent = loss.bent(shares, known[a], problem.smoothing) * scales[:, None]
                for b in range(a, k):
                    part = float(np.vdot(bent, known[b]))
                    bend[a, b] += part
                    bend[b, a] += part * (a != b)
        return value, slope, bend
