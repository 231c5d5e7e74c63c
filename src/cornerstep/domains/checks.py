"""``check_domain``: do the oracles of a domain belong to one convex set?"""

from __future__ import annotations

from typing import Any

import numpy as np

from cornerstep.core.rounding import norm
from cornerstep.core.types import FloatArray
from cornerstep.core.vectors import dense
from cornerstep.domains.base import Domain, as_vertex, has_oracle

_SLACK = 1e-7  # of the sizes that are compared: linear programs answer to 1e-9
_ATOMS = 50  # atoms of a list that are looked at


def check_domain(domain: Any, *, n_trials: int = 20, random_state: int = 0) -> None:
    """Try the oracles of a domain on random gradients; raise an error that names the wrong one.

    No answer that ``lmo``, ``start``, ``atom`` or ``in_face_lmo`` ever gives may be better for a
    gradient than what ``lmo`` answers to it.  Of the optional members those that are there are
    tried: ``contains`` must take all answers and what lies between them, and nothing beyond the
    planes that ``lmo`` finds; ``in_face_lmo`` must be as good as the vertices that a point is made
    of, and stay in its face; ``max_step`` must end on the boundary; projections must be nearest,
    ``diameter`` and ``reach`` not too small, atoms the ones that are scored.

    Parameters
    ----------
    domain : domain
        With ``size`` and ``lmo``; see :class:`Domain` for what else it may have.
    n_trials : int, default=20
        Gradients to try.
    random_state : int, default=0

    Raises
    ------
    AssertionError
        With the name of the oracle that is probably wrong.
    """
    if not isinstance(domain, Domain) or not callable(domain.lmo):
        _complain("the domain", "it must have size and lmo(gradient)")
    if not (isinstance(domain.size, int | np.integer) and domain.size >= 1):
        _complain("size", f"it must be an integer >= 1, got {domain.size!r}")
    rng = np.random.default_rng(random_state)
    gradients = _gradients(rng, int(domain.size), n_trials)
    vertices = np.array([_lmo(domain, gradient) for gradient in gradients])
    seen = np.vstack([vertices, *_further(domain, gradients[0], rng)])
    _check_least(gradients, vertices, seen)
    _check_contains(domain, gradients, vertices, seen, rng)
    _check_faces(domain, gradients, vertices, rng)
    _check_projections(domain, seen, rng)
    _check_sizes(domain, seen)


def _complain(oracle: str, why: str) -> None:
    raise AssertionError(f"{oracle} is probably wrong: {why}")


def _gradients(rng: Any, size: int, count: int) -> FloatArray:
    """Directions of several sizes, sparse ones, ones with ties, and none."""
    dense_ones = rng.standard_normal((count, size)) * 10.0 ** rng.integers(-2, 3, (count, 1))
    sparse = dense_ones * (rng.random((count, size)) < 0.3)
    ties = rng.integers(-1, 2, (count, size)).astype(float)
    return np.vstack([dense_ones, sparse, ties, np.ones(size), -np.ones(size), np.zeros(size)])


def _asked(oracle: str, answer: Any, size: int) -> FloatArray:
    """An oracle's answer as an array."""
    try:
        vector = dense(as_vertex(answer, size, oracle))
    except TypeError as wrong:
        raise AssertionError(f"{oracle} is probably wrong: {wrong}") from None
    if not np.isfinite(vector).all():
        _complain(oracle, "it answers with NaN or infinity")
    return vector.copy()


def _lmo(domain: Any, gradient: FloatArray) -> FloatArray:
    given = gradient.copy()
    answer = _asked("lmo", domain.lmo(given), gradient.size)
    if not np.array_equal(given, gradient):
        _complain("lmo", "it changes the gradient that it is given")
    return answer


def _further(domain: Any, gradient: FloatArray, rng: Any) -> list[FloatArray]:
    """The starting vertex, and some atoms, whose scores are checked."""
    found = []
    if has_oracle(domain, "start"):
        found.append(_asked("start", domain.start(), gradient.size))
    if has_oracle(domain, "atom_scores"):
        some = [int(rng.integers(min(domain.n_atoms, 2**62))) for _ in range(_ATOMS)]
        atoms = [_asked("atom", domain.atom(i), gradient.size) for i in some]
        scores = np.asarray(domain.atom_scores(np.array(some), gradient), dtype=np.float64)
        own = np.array([atom @ gradient for atom in atoms])
        sizes = np.array([np.abs(atom) @ np.abs(gradient) for atom in atoms])
        if scores.shape != own.shape or (np.abs(scores - own) > _SLACK * sizes).any():
            _complain("atom_scores", "it is not <gradient, atom(i)> for each i")
        found += atoms
    return found


def _check_least(gradients: FloatArray, vertices: FloatArray, seen: FloatArray) -> None:
    for gradient, vertex in zip(gradients, vertices, strict=True):
        scores = seen @ gradient
        best = int(scores.argmin())
        largest = float(np.abs(gradient).max(initial=0.0))
        slack = _SLACK * largest * float((np.abs(vertex) + np.abs(seen[best])).sum())
        if scores[best] < gradient @ vertex - slack:
            _complain(
                "lmo",
                f"its answer has a product of {gradient @ vertex:.9g} with a gradient, another "
                f"point of the domain {scores[best]:.9g}: it must be the least",
            )


def _mixed(rng: Any, points: FloatArray, count: int = 3) -> tuple[FloatArray, FloatArray]:
    """A random point well between some of these, and which they are."""
    some = points[rng.choice(len(points), min(count, len(points)), replace=False)]
    weights = 0.2 + rng.random(len(some))
    return weights / weights.sum() @ some, some


def _check_contains(
    domain: Any, gradients: FloatArray, vertices: FloatArray, seen: FloatArray, rng: Any
) -> None:
    if not has_oracle(domain, "contains"):
        return
    for point in (*seen, *(_mixed(rng, seen)[0] for _ in gradients)):
        if not domain.contains(point.copy()):
            _complain("contains or an oracle", "it denies an answer, or a point between answers")
    for gradient, vertex in zip(gradients, vertices, strict=True):
        # as far beyond the plane <gradient, .> = least as the domain is large
        length = norm(gradient)
        beyond = vertex - gradient * ((1e-3 + norm(vertex)) / length) if length else vertex
        if length and domain.contains(beyond):
            _complain("lmo or contains", "contains takes a point that is better than lmo's answer")


def _check_faces(domain: Any, gradients: FloatArray, vertices: FloatArray, rng: Any) -> None:
    if not (has_oracle(domain, "in_face_lmo") and has_oracle(domain, "max_step")):
        return
    for gradient in gradients:
        x, made_of = _mixed(rng, vertices, int(rng.integers(1, 4)))
        if has_oracle(domain, "snap"):
            domain.snap(x)
        answer = _asked("in_face_lmo", domain.in_face_lmo(gradient.copy(), x.copy()), x.size)
        slack = _SLACK * float(np.abs(gradient) @ (np.abs(made_of).max(axis=0) + np.abs(answer)))
        if gradient @ answer > (made_of @ gradient).min() + slack:
            _complain("in_face_lmo", "a vertex that x is made of, so of its face, is better")
        away = x - answer
        if norm(away) <= _SLACK * norm(x):
            continue
        step = float(domain.max_step(x, away))
        if not 0 < step < np.inf:
            _complain("in_face_lmo or max_step", f"x may go {step} times the way from the answer")
        if has_oracle(domain, "contains"):
            if not domain.contains(x + step * away):
                _complain("max_step", "the point at the largest step is not in the domain")
            if domain.contains(x + (step + 1e-3 * (1 + step)) * away):
                _complain("max_step", "points beyond the largest step are in the domain")


def _check_projections(domain: Any, seen: FloatArray, rng: Any) -> None:
    scale = 1.0 + float(np.abs(seen).max())
    for name in ("project", "project_entropy"):
        for _ in seen if has_oracle(domain, name) else ():
            y = scale * rng.standard_normal(seen.shape[1])
            near = _asked(name, getattr(domain, name)(y.copy()), y.size)
            if has_oracle(domain, "contains") and not domain.contains(near.copy()):
                _complain(name, "it answers with a point outside the domain")
            normal = y - near if name == "project" else y - np.log(np.maximum(near, 1e-300)) - 1.0
            sizes = np.abs(normal) @ np.abs(seen - near).T
            if ((seen - near) @ normal > _SLACK * (sizes + scale)).any():
                _complain(name, "another point of the domain is nearer")


def _check_sizes(domain: Any, seen: FloatArray) -> None:
    gaps = np.abs(seen[:, None] - seen)
    if has_oracle(domain, "diameter"):
        longest = max(norm(gap) for row in gaps for gap in row)
        if longest > float(domain.diameter) * (1 + _SLACK):
            _complain("diameter", f"it is {domain.diameter:.9g}, points are {longest:.9g} apart")
    if has_oracle(domain, "reach"):
        weights = np.linspace(0.1, 1.0, seen.shape[1])
        for point, row in zip(seen, gaps, strict=True):
            if float(domain.reach(weights, point)) < float((row @ weights).max()) * (1 - _SLACK):
                _complain("reach", "it is less than what a vertex is away")
    grid = getattr(domain, "grid", None)
    if grid is not None and not np.isin(seen, (0.0, grid)).all():
        _complain("grid", f"vertices have entries other than 0 and {grid}")
