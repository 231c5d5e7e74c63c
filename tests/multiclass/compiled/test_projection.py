"""Projections onto the dual domains: exact in rational arithmetic, by cvxpy, by construction."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import cvxpy as cp
import numpy as np
import pytest

from cornerstep.losses import Loss, MaxHinge, TopK, Usunier, WeightedTopK, WeightedUsunier
from cornerstep.multiclass.compiled import projection
from support.loss_problems import (
    PAPER,
    TIGHT,
    alpha_of,
    draw,
    draw_inside,
    draw_rho,
    every_kind,
    program,
    sizes,
)

both_families = pytest.mark.parametrize("make", [WeightedUsunier, WeightedTopK])


@pytest.fixture
def rng():
    return np.random.default_rng(30)


# An exact reference: Wolfe's nearest point algorithm over the vertices, in rational numbers


def vertex(direction, y, rho, whole, shuffle=None):
    """The dual point furthest along ``direction``; ties by position, or at random."""
    m = len(direction)
    z = [direction[y] - direction[j] for j in range(m)]
    order = list(range(m)) if shuffle is None else list(shuffle.permutation(m))
    picked = list(zip(rho, sorted(order, key=lambda j: -z[j]), strict=False))
    if whole:
        gain = sum(r * z[j] for r, j in picked)
        picked = picked if gain > 0 or (shuffle and gain == 0 and shuffle.random() < 0.5) else []
    else:
        ties = shuffle is not None and shuffle.random() < 0.5
        picked = [(r, j) for r, j in picked if z[j] > 0 or (ties and z[j] == 0)]
    out = [0 * rho[0]] * m
    for r, j in picked:
        out[j] -= r
        out[y] += r
    return out


def dot(u, v):
    return sum((a * b for a, b in zip(u, v, strict=True)), Fraction(0))


def solve(matrix, right):
    rows = [[*row, entry] for row, entry in zip(matrix, right, strict=True)]
    for i in range(len(rows)):
        pivot = next(k for k in range(i, len(rows)) if rows[k][i] != 0)
        rows[i], rows[pivot] = rows[pivot], rows[i]
        for k in range(len(rows)):
            if k != i and rows[k][i] != 0:
                ratio = rows[k][i] / rows[i][i]
                rows[k] = [a - ratio * b for a, b in zip(rows[k], rows[i], strict=True)]
    return [row[-1] / row[i] for i, row in enumerate(rows)]


def nearest_of_affine_hull(points):
    one = Fraction(1)
    gram = [[*(dot(u, v) for v in points), one] for u in points]
    gram.append([one] * len(points) + [Fraction(0)])
    return solve(gram, [Fraction(0)] * len(points) + [one])[:-1]


def exact_projection(point, y, rho, whole):
    """The projection, rounded once at the end."""
    point, rho = [Fraction(float(p)) for p in point], [Fraction(float(r)) for r in rho]

    def seen(corner):
        return [a - p for a, p in zip(corner, point, strict=True)]

    points, weights = [seen(vertex(point, y, rho, whole))], [Fraction(1)]
    x = points[0]
    while True:
        corner = seen(vertex([-entry for entry in x], y, rho, whole))
        if dot(x, corner) >= dot(x, x):
            return np.array([float(a + p) for a, p in zip(x, point, strict=True)])
        points, weights = [*points, corner], [*weights, Fraction(0)]
        target = nearest_of_affine_hull(points)
        while min(target) < 0:
            pairs = list(zip(weights, target, strict=True))
            step = min(w / (w - t) for w, t in pairs if t < 0)
            weights = [(1 - step) * w + step * t for w, t in pairs]
            points = [p for p, w in zip(points, weights, strict=True) if w > 0]
            weights = [w for w in weights if w > 0]
            target = nearest_of_affine_hull(points)
        points = [p for p, t in zip(points, target, strict=True) if t > 0]
        weights = [t for t in target if t > 0]
        x = [dot(weights, column) for column in zip(*points, strict=True)]


def draw_point(shape, rng, m, y, size):
    if shape == "random":
        return size * rng.standard_normal(m)
    if shape == "ties":
        return size * rng.integers(-2, 3, m)
    if shape == "equal":
        return np.full(m, size)
    if shape == "close":  # large, but the entries differ by about 1
        return size + rng.integers(-6, 7, m) / 8
    if shape == "one of each size":
        return rng.standard_normal(m) * size ** rng.uniform(-1, 1, m)
    point = -size * rng.random(m)  # "wrong": every class beats the label
    point[y] = size * rng.random()
    return point


SHAPES = ("random", "ties", "equal", "close", "one of each size", "wrong")


@both_families
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("size", [1e-12, 1e-8, 1e-3, 0.1, 1.0, 10.0, 1e3, 1e8])
def test_project_is_exact(make, shape, size, rng):
    for repeat in range(10):
        m = int(rng.integers(2, 7))
        rho = draw_rho(rng, m) if repeat % 3 else np.full(rng.integers(1, m), 0.5)
        y = int(rng.integers(m))
        point = draw_point(shape, rng, m, y, size)
        expected = exact_projection(point, y, rho, make.whole)
        # Rounding once, of differences to the label's entry, moves the answer as much:
        reach = min(np.abs(point - point[y]).max(), rho.sum()) + 1e-16 * np.abs(point).max()
        np.testing.assert_allclose(
            make(rho).project(point, y), expected, rtol=0, atol=2e-14 * reach
        )


@pytest.mark.parametrize(
    ("point", "y", "rho"),
    [
        # Many scales s give the same beta, the label taking up the rest: a flat derivative.
        ([-0.31584507, -0.83816781, -0.26272204, 0.09104939], 0, [0.55977332, 0.34484334]),
        ([682.82854393, 681.09812019, 682.22904605], 2, [0.58637835, 0.17311364]),
        ([1e-9, -1e-9, 0.0, 2e-9], 2, [0.5, 0.3, 0.2]),
        # Weights of very different size.
        ([0.0, -0.3, -0.2, 0.1, 0.4], 0, [1.0, 1e-9, 1e-12]),
        ([0.2, -0.3, -0.2, 0.1, 0.4], 0, [1.0, 0.5, 1e-160]),
        ([0.5, -1e8, 1e-8, -1e-8, 3.0], 0, [1.0, 0.5, 0.25]),
    ],
)
def test_project_is_exact_in_hard_cases(point, y, rho):
    for make in (WeightedUsunier, WeightedTopK):
        expected = exact_projection(point, y, rho, make.whole)
        scale = np.abs(expected).max()
        np.testing.assert_allclose(
            make(rho).project(point, y), expected, rtol=1e-13, atol=1e-14 * scale
        )


def test_the_projection_of_the_max_hinge_in_closed_form():
    """Two classes: ``alpha = (b, -b)`` with b the mean of p_y and -p_j, clipped to [0, 1]."""
    for own, other in [(0.25, -0.5), (3.0, -2.0), (-1.0, 0.5), (0.5, 0.5), (1e-9, 0.0)]:
        b = min(1.0, max(0.0, (own - other) / 2))
        for loss in (MaxHinge(), TopK(1), Usunier(1)):
            np.testing.assert_allclose(loss.project([own, other], 0), [b, -b], rtol=1e-15)
            np.testing.assert_allclose(loss.project([other, own], 1), [-b, b], rtol=1e-15)


@every_kind
@sizes
def test_project_solves_the_program_over_B(kind, m, rng):
    batch = draw(kind, rng, m)
    for size in (0.3, 3.0):
        point = batch.draw_scores(rng, size)
        answers = batch.loss.project(point, batch.y)
        for i in range(2):
            case = batch.one(i)
            beta, constraints = program(case, m)
            alpha = alpha_of(beta, case.y, m)
            cp.Problem(cp.Minimize(cp.sum_squares(alpha - point[i])), constraints).solve(**TIGHT)
            np.testing.assert_allclose(answers[i], alpha.value, atol=2e-6)
            distance = ((answers[i] - point[i]) ** 2).sum()
            assert distance == pytest.approx(((alpha.value - point[i]) ** 2).sum(), abs=1e-9)


# Properties, for many classes as well


@every_kind
@pytest.mark.parametrize("m", [2, 5, 33, 200])
@pytest.mark.parametrize("size", [1e-8, 0.05, 1.0, 1e8])
def test_properties_of_a_projection(kind, m, size, rng):
    case = draw(kind, rng, m)
    project = case.loss.project
    point, near = case.draw_scores(rng, size), case.draw_scores(rng, size)
    alpha = project(point, case.y)
    reach = min(size, case.rho.sum())
    # in the domain, to rounding
    assert np.isfinite(case.loss.conjugate(-alpha, case.y, tol=1e-14)).all()
    # idempotent, also where it starts in the domain
    np.testing.assert_allclose(project(alpha, case.y), alpha, rtol=0, atol=1e-13 * reach)
    inside = -draw_inside(case, rng, m)
    np.testing.assert_allclose(project(inside, case.y), inside, rtol=0, atol=1e-13 * case.rho.sum())
    # nonexpansive
    moved = np.linalg.norm(alpha - project(near, case.y), axis=1)
    assert (moved <= np.linalg.norm(point - near, axis=1) * (1 + 1e-12)).all()
    # variational inequality: against points of the set, and the worst of all its vertices
    rounding = 1e-14 * m * size * case.rho.sum()
    assert (((point - alpha) * (inside - alpha)).sum(axis=1) <= rounding).all()
    for i, y in enumerate(case.y):
        residual = point[i] - alpha[i]
        worst = np.array(vertex(residual, y, case.loss.rho, case.loss.whole))
        assert residual @ (worst - alpha[i]) <= rounding


@both_families
@pytest.mark.parametrize("m", [3, 20, 40, 200])
@pytest.mark.parametrize("size", [1e-3, 1.0, 1e3])
def test_a_constructed_projection_is_found(make, m, size, rng):
    """p = u + w projects onto u if u lies in the face furthest along w."""
    for rho in (draw_rho(rng, m), PAPER[: m - 1], np.full(m - 1, 0.1), [1.0]):
        loss = make(rho)
        for spread in (1, 3, 8):
            w = size * rng.integers(-spread, spread + 1, m)
            y = int(rng.integers(m))
            corners = [vertex(w, y, loss.rho, make.whole, rng) for _ in range(m)]
            u = rng.dirichlet(np.ones(m)) @ np.array(corners)
            np.testing.assert_allclose(
                loss.project(u + w, y), u, rtol=0, atol=1e-15 * (size * spread + m * loss.rho.sum())
            )


@every_kind
@pytest.mark.parametrize("m", [2, 6, 60])
def test_ties_share_alike(kind, m, rng):
    case = draw(kind, rng, m)
    point = rng.integers(-1, 2, (case.y.size, m))
    alpha = case.loss.project(point, case.y)
    for row, y, entries in zip(alpha, case.y, point, strict=True):
        assert abs(row.sum()) < 1e-14 * m
        for value in (-1, 0, 1):
            equal = np.delete(row, y)[np.delete(entries, y) == value]
            assert equal.size == 0 or np.ptp(equal) <= 1e-15


@pytest.mark.parametrize("loss", [MaxHinge(), TopK(3), Usunier(3), WeightedTopK([3, 2, 1])])
def test_points_beyond_the_label_project_to_zero(loss, rng):
    point = np.abs(rng.standard_normal((10, 6)))
    y = rng.integers(0, 6, 10)
    point[np.arange(10), y] = -1
    np.testing.assert_array_equal(loss.project(point, y), 0)
    np.testing.assert_array_equal(loss.project(np.zeros((10, 6)), y), 0)
    np.testing.assert_array_equal(loss.project(np.full((10, 6), 0.1), y), 0)


@both_families
@pytest.mark.parametrize("K", [1, 2, 5])
def test_entries_that_get_no_weight_may_be_left_out(make, K, rng):
    """Of many entries some are looked at only; tiny weights behind rho let all be looked at."""
    m = 50
    for size in (1e-6, 0.1, 1.0, 30.0, 1e8):
        rho = np.sort(rng.random(K))[::-1] if size != 1.0 else np.ones(K)
        points = size * rng.standard_normal((40, m))
        points[::3] = size * rng.integers(-2, 3, (14, m))  # ties
        points[1::4] -= size * 3
        y = rng.integers(0, m, 40)
        few, all_ = make(rho), make(np.pad(rho, (0, m // 2), constant_values=1e-300))
        assert 8 * all_.rho.size > m > 8 * few.rho.size  # zeros behind rho would be cut off
        slack = 1e-14 * max(1.0, size)
        np.testing.assert_allclose(
            few.project(points, y), all_.project(points, y), rtol=1e-9, atol=slack
        )


@both_families
@pytest.mark.parametrize("K", [1, 2, 5])
def test_nan_is_never_left_out(make, K):
    m = 50
    for place in (1, 2, 25, m - 1):
        point = np.zeros(m)
        point[place] = np.nan
        c, index = np.concatenate([-point[1:], [0.0]])[: m - 1], np.empty(m, np.int64)
        count = projection.gather.py_func(c, make(np.ones(K)).rho, np.empty(K), index)
        assert place - 1 in index[:count]


@pytest.mark.parametrize("count", [1, 2, 32, 33, 100])
def test_sort_decreasing(count, rng):
    order = np.empty(count, np.int64)
    for values in (rng.standard_normal(count), rng.integers(0, 3, count).astype(float)):
        projection.sort_decreasing(values, order)
        assert sorted(order) == list(range(count))
        np.testing.assert_array_equal(values[order], np.sort(values)[::-1])


# How the kernels are compiled


def test_no_caller_makes_the_kernels_reorder_sums():
    kernels = [item for item in vars(projection).values() if hasattr(item, "targetoptions")]
    if not os.environ.get("NUMBA_DISABLE_JIT"):
        assert len(kernels) >= 6
    assert all(kernel.targetoptions["fastmath"] is False for kernel in kernels)


def jit_cases():
    rng = np.random.default_rng(40)
    for make in (WeightedUsunier, WeightedTopK):
        for m in (2, 5, 40):
            for size in (1e-8, 0.3, 3.0, 1e8):
                loss: Loss = make(draw_rho(rng, m))
                point = size * rng.standard_normal((4, m))
                point[3] = size * rng.integers(-1, 2, m)
                yield loss.project(point, rng.integers(0, m, 4)).tolist()


def test_the_kernels_do_the_same_without_the_jit():
    script = "import json, test_projection as t; print(json.dumps(list(t.jit_cases())))"
    tests = Path(__file__).parents[2]
    run = subprocess.run(
        [sys.executable, "-c", script],
        env={
            **os.environ,
            "NUMBA_DISABLE_JIT": "1",
            "PYTHONPATH": os.pathsep.join([str(tests), *sys.path]),
        },
        cwd=os.path.dirname(__file__),
        capture_output=True,
        text=True,
        check=True,
    )
    for plain, compiled in zip(json.loads(run.stdout), jit_cases(), strict=True):
        np.testing.assert_allclose(compiled, plain, rtol=1e-15)
