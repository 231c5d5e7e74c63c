"""Condition numbers of small polytopes, by enumeration.

- ``H_s = max over |S| <= s of |sum_{k in S} a_k / g_k|²`` for the inequalities ``a_k'x <= b_k``,
  g_k the difference of the two largest values that ``a_k'v`` takes at vertices v [1]_.  It belongs
  to the inequalities, not to the set alone; equations do not count.
- The *facial distance* ``min over faces F of dist(F, conv(vertices outside F))``, which equals the
  pyramidal width [2]_, [3]_: the larger, the faster are away and pairwise steps.

References
----------
.. [1] M. A. Bashiri, X. Zhang. Decomposition-invariant conditional gradient for general polytopes
   with line search. NIPS 2017.
.. [2] S. Lacoste-Julien, M. Jaggi. On the global linear convergence of Frank-Wolfe optimization
   variants. NIPS 2015.
.. [3] J. Peña, D. Rodríguez. Polytope conditioning and linear convergence of the Frank-Wolfe
   algorithm. Mathematics of Operations Research 44, 1-18, 2019.
"""

from __future__ import annotations

import math
from itertools import chain, combinations, islice
from typing import Any

import numpy as np

from cornerstep.core.rounding import norm
from cornerstep.core.types import FloatArray

_BASES = 50_000  # systems of tight rows that may be solved to list vertices
_SUBSETS = 50_000  # sets of rows that may be tried for H_s
_FACES = 20_000
_DIMENSIONS = 8  # of hulls whose facets are listed
_SAME = 1e-9  # relative: numbers this close are one
_BATCH = 4096


def facial_constant(rows: Any, vertices: Any, s: int) -> float:
    """The facial constant :math:`H_s` of the inequalities with these rows, at these vertices.

    Where there are more than 50,000 sets of rows it is bounded from above: with
    ``G_kl = a_k'a_l / (g_k g_l)`` by the sum of the s largest of
    ``G_kk + (the s - 1 largest positive G_kl, l != k)``.

    Parameters
    ----------
    rows : array of shape (m, n)
    vertices : array of shape (N, n)
    s : int
        At least 1.

    Returns
    -------
    float
    """
    scaled = _over_gaps(np.asarray(rows, dtype=float), np.asarray(vertices, dtype=float))
    if not len(scaled):
        return 0.0
    s = min(int(s), len(scaled))
    gram = scaled @ scaled.T
    if sum(math.comb(len(scaled), r) for r in range(1, s + 1)) <= _SUBSETS:
        sets = (combinations(range(len(scaled)), r) for r in range(1, s + 1))
        return max(float(gram[np.ix_(some, some)].sum()) for some in chain.from_iterable(sets))
    others = np.maximum(gram - np.diag(np.diag(gram)), 0.0)
    most = np.sort(others, axis=1)[:, len(scaled) - (s - 1) :].sum(axis=1)
    return float(np.sort(np.diag(gram) + most)[-s:].sum())


def _over_gaps(rows: FloatArray, vertices: FloatArray) -> FloatArray:
    """``a_k / g_k`` of the rows that are not constant on the vertices."""
    scaled = []
    for row in rows:
        values = np.sort(vertices @ row)[::-1]
        below = values[values < values[0] - _SAME * np.abs(row) @ np.abs(vertices).max(axis=0)]
        if below.size:
            scaled.append(row / (values[0] - below[0]))
    return np.array(scaled).reshape(-1, rows.shape[1])


def vertices_of(A: Any, b: Any, C: Any, d: Any) -> FloatArray | None:
    """The vertices of ``{Ax <= b, Cx = d}``, bounded; None if there are too many sets of rows."""
    A, b, C, d = (np.asarray(part, dtype=float) for part in (A, b, C, d))
    n = A.shape[1]
    if C.size:
        U, sizes, Vt = np.linalg.svd(C, full_matrices=False)
        kept = sizes > _SAME * sizes.max(initial=0.0)
        C, d = Vt[kept], (U.T @ d)[kept] / sizes[kept]
    tight = n - len(C)
    if math.comb(len(b), tight) > _BASES:
        return None
    length = np.maximum(np.linalg.norm(A, axis=1), np.finfo(float).tiny)
    A, b = A / length[:, None], b / length
    found, sets = [], combinations(range(len(b)), tight)
    while some := list(islice(sets, _BATCH)):
        index = np.array(some, dtype=np.intp).reshape(len(some), tight)
        M = np.concatenate([np.broadcast_to(C, (len(some), *C.shape)), A[index]], axis=1)
        right = np.concatenate([np.broadcast_to(d, (len(some), d.size)), b[index]], axis=1)
        regular = np.abs(np.linalg.det(M)) > _SAME
        points = np.linalg.solve(M[regular], right[regular][:, :, None])[:, :, 0]
        scale = 1.0 + np.abs(points).max(axis=1, initial=0.0)
        inside = (points @ A.T - b <= _SAME * scale[:, None]).all(axis=1)
        found.append(points[inside])
    return _distinct(np.vstack(found))


def capped_constant(caps: FloatArray, row: FloatArray, total: float, s: int, at_most: bool) -> Any:
    """``H_s`` of ``{0 <= x <= caps, row'x = total}`` (or ``<=``); None where vertices are many."""
    eye, one = np.eye(caps.size), np.array([total])
    rows, right = np.vstack([eye, -eye]), np.concatenate([caps, np.zeros(caps.size)])
    if at_most:
        rows, right = np.vstack([rows, row]), np.append(right, one)
    vertices = vertices_of(rows, right, row[None, :][at_most:], one[at_most:])
    return None if vertices is None else facial_constant(rows, vertices, s)


def _distinct(points: FloatArray) -> FloatArray:
    unit = float(np.abs(points).max(initial=0.0)) or 1.0
    _, first = np.unique((points / unit).round(8), axis=0, return_index=True)
    return points[np.sort(first)]


def facets_of(points: Any) -> tuple[FloatArray, FloatArray] | None:
    """Vertices of a hull, and the normals of its facets inside the space that it spans.

    None beyond eight dimensions, where facets are too many to list.
    """
    from scipy.spatial import ConvexHull as Quickhull

    points = _distinct(np.asarray(points, dtype=float))
    middle = points.mean(axis=0)
    _, sizes, Vt = np.linalg.svd(points - middle, full_matrices=False)
    basis = Vt[sizes > _SAME * sizes.max(initial=0.0)] if sizes.max(initial=0.0) > 0 else Vt[:0]
    inner = (points - middle) @ basis.T
    if len(basis) > _DIMENSIONS:
        return None
    if len(basis) == 0:
        return points[:1], np.empty((0, points.shape[1]))
    if len(basis) == 1:
        return points[[inner.argmin(), inner.argmax()]], np.vstack([-basis, basis])
    hull = Quickhull(inner)
    normals = _distinct(hull.equations)[:, :-1] @ basis
    return points[np.sort(hull.vertices)], normals


def facial_distance(points: Any) -> float:
    """The facial distance (the pyramidal width) of the convex hull of a few points.

    All faces are listed, and each is compared with the vertices that it leaves out.

    Parameters
    ----------
    points : array of shape (N, n)
        They may span up to eight dimensions.

    Returns
    -------
    float
        Infinite for a single point, which has no proper face.
    """
    listed = facets_of(points)
    if listed is None:
        raise ValueError(f"points must span at most {_DIMENSIONS} dimensions")
    vertices, normals = listed
    least = math.inf
    for face in _faces(vertices, normals):
        inside = np.zeros(len(vertices), bool)
        inside[list(face)] = True
        differences = (vertices[inside][:, None] - vertices[~inside]).reshape(-1, vertices.shape[1])
        least = min(least, _least_norm(differences))
    return least


def _faces(vertices: FloatArray, normals: FloatArray) -> set[frozenset[int]]:
    """The proper faces, as sets of vertices: all intersections of facets."""
    facets = set()
    for normal in normals:
        values = vertices @ normal
        slack = _SAME * (1.0 + np.abs(vertices).max()) * norm(normal)
        facets.add(frozenset(np.flatnonzero(values >= values.max() - slack).tolist()))
    faces, new = set(facets), set(facets)
    while new:
        new = {face & facet for face in new for facet in facets} - faces - {frozenset()}
        faces |= new
        if len(faces) > _FACES:
            raise ValueError(f"points must have a hull of at most {_FACES:,} faces")
    return faces


def _least_norm(points: FloatArray) -> float:
    """The least norm in the convex hull of these rows: ``min |P'w|² + (1 - sum w)²``, w >= 0."""
    from scipy.optimize import lsq_linear, nnls

    size = float(np.abs(points).max())
    system = np.vstack([points.T / size, np.ones(len(points))])
    right = np.append(np.zeros(points.shape[1]), 1.0)

    def solved(weights: FloatArray) -> float | None:
        """The norm, if no point proves that there is a smaller one."""
        x = points.T @ (weights / weights.sum())
        return norm(x) if (points @ x).min() >= x @ x - 1e-9 * size * norm(x) else None

    found = solved(nnls(system, right)[0])
    if found is None:
        found = solved(lsq_linear(system, right, (0, np.inf), method="bvls", tol=1e-14).x)
    if found is None:
        raise ArithmeticError("the distance of two faces could not be computed")
    return found
