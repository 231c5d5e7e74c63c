"""The losses against the table of their values, programs over B, their conjugates and envelopes."""

from __future__ import annotations

from typing import Any

import cvxpy as cp
import numpy as np
import pytest

from cornerstep.losses import (
    LOSSES,
    CostSensitive,
    Loss,
    MaxHinge,
    Softmax,
    SquaredHinge,
    TopK,
    TopKEntropy,
    Usunier,
    WeightedTopK,
    WeightedUsunier,
    make_loss,
)
from support.loss_problems import (
    PAPER,
    TIGHT,
    alpha_of,
    alphas,
    brute_vertex,
    draw,
    draw_inside,
    every_kind,
    program,
    sizes,
    vertices,
)


@pytest.fixture
def rng():
    return np.random.default_rng(20)


# Values and subgradients


def table(kind, z, k, rho):
    """The table of losses, as one would write it on paper."""
    z = sorted(z, reverse=True)
    if kind in ("max-hinge", "cost-sensitive", "cost-sensitive, per example"):
        return max(z)
    if kind == "top-k":
        return max(0, sum(z[:k]) / k)
    if kind == "usunier":
        return sum(max(0, entry) for entry in z[:k]) / k
    if kind in ("weighted-top-k", "whole with costs"):
        return max(0, sum(r * entry for r, entry in zip(rho, z, strict=True)))
    return sum(r * max(0, entry) for r, entry in zip(rho, z, strict=True))


@every_kind
@pytest.mark.parametrize("m", [2, 3, 7, 200])
def test_values_are_those_of_the_table(kind, m, rng):
    for scores_of in (case_scores, case_ties):
        case = draw(kind, rng, m)
        scores = scores_of(case, rng)
        expected = [table(kind, z, case.loss.rho.size, case.rho) for z in case.margins(scores)]
        np.testing.assert_allclose(case.loss.value(scores, case.y), expected, rtol=1e-12)


def case_scores(case, rng):
    return case.draw_scores(rng)


def case_ties(case, rng):
    return rng.integers(-2, 3, case.delta.shape)


def test_the_weights_of_the_paper():
    loss = WeightedUsunier(PAPER)
    np.testing.assert_allclose(loss.rho, [5 / 15, 4 / 15, 3 / 15, 2 / 15, 1 / 15])
    # label 0: margins 0, 3, 2, 0.5, -1, -2, -3
    scores = np.array([0.0, 2.0, 1.0, -0.5, -2.0, -3.0, -4.0])
    assert loss.value(scores, 0) == pytest.approx((5 * 3 + 4 * 2 + 3 * 0.5) / 15)
    expected = np.array([-12, 5, 4, 3, 0, 0, 0]) / 15
    np.testing.assert_allclose(loss.subgradient(scores, 0), expected, atol=1e-15)
    whole = WeightedTopK(PAPER)
    assert whole.value(scores, 0) == pytest.approx((5 * 3 + 4 * 2 + 3 * 0.5 - 1) / 15)
    np.testing.assert_allclose(
        whole.subgradient(scores, 0), np.array([-13, 5, 4, 3, 1, 0, 0]) / 15, atol=1e-15
    )


@every_kind
@pytest.mark.parametrize("m", [2, 3, 4])
def test_value_and_subgradient_are_the_best_of_all_vertices(kind, m, rng):
    for scores_of in (case_scores, case_scores, case_ties):
        case = draw(kind, rng, m)
        scores = scores_of(case, rng)
        corners = vertices(case, m)
        value, gradient = case.loss.value(scores, case.y), case.loss.subgradient(scores, case.y)
        np.testing.assert_allclose(
            value, (case.margins(scores) @ corners.T).max(axis=1), atol=1e-13
        )
        for i, y in enumerate(case.y):
            distances = np.abs(alphas(corners, y) + gradient[i]).max(axis=1)
            assert distances.min() < 1e-14  # it is a vertex, and one that attains the value:
            assert (scores[i] + case.delta[i]) @ gradient[i] == pytest.approx(value[i], abs=1e-13)


@every_kind
@sizes
def test_value_solves_the_program_over_B(kind, m, rng):
    batch = draw(kind, rng, m)
    scores = batch.draw_scores(rng)
    values = batch.loss.value(scores, batch.y)
    for i in range(2):
        case = batch.one(i)
        beta, constraints = program(case, m)
        z = batch.margins(scores)[i]
        optimum = cp.Problem(cp.Maximize(z @ beta), constraints).solve(**TIGHT)
        assert values[i] == pytest.approx(optimum, abs=1e-8)


@every_kind
@pytest.mark.parametrize("m", [2, 5, 60])
def test_one_vector_is_a_batch_of_one(kind, m, rng):
    batch = draw(kind, rng, m)
    scores = batch.draw_scores(rng)
    inside = batch.loss.subgradient(scores[::-1], batch.y)
    for i in range(batch.y.size):
        loss, _, _, y = batch.one(i)
        one = loss if batch.loss.per_example else batch.loss
        assert np.ndim(one.value(scores[i], int(y))) == 0
        for name, rows, extra in [
            ("value", scores, ()),
            ("subgradient", scores, ()),
            ("conjugate", inside, ()),
            ("envelope", scores, (0.3,)),
            ("dual_point", scores, (0.3,)),
            ("project", scores, ()),
        ]:
            whole = getattr(batch.loss, name)(rows, batch.y, *extra)
            np.testing.assert_array_equal(getattr(one, name)(rows[i], y, *extra), whole[i])
            np.testing.assert_array_equal(
                getattr(one, name)(rows[i].tolist(), int(y), *extra), whole[i]
            )


@every_kind
@pytest.mark.parametrize("m", [2, 5, 60])
def test_subgradient_inequality(kind, m, rng):
    case = draw(kind, rng, m)
    for scores_of in (case_scores, case_ties):
        at = scores_of(case, rng)
        value, gradient = case.loss.value(at, case.y), case.loss.subgradient(at, case.y)
        for size in (1e-3, 1.0, 100.0):
            other = at + case.draw_scores(rng, size)
            below = value + (gradient * (other - at)).sum(axis=1)
            assert (case.loss.value(other, case.y) >= below - 1e-12 * (1 + abs(below))).all()


@every_kind
@sizes
def test_subgradient_is_the_gradient_where_there_is_one(kind, m, rng):
    case, step, compared = draw(kind, rng, m, 20), 1e-6, 0
    scores = case.draw_scores(rng)
    gradient = case.loss.subgradient(scores, case.y)
    for j in range(m):
        up, down = scores + step * np.eye(m)[j], scores - step * np.eye(m)[j]
        smooth = [case.loss.subgradient(moved, case.y) == gradient for moved in (up, down)]
        smooth = np.all(smooth, axis=(0, 2))
        slope = (case.loss.value(up, case.y) - case.loss.value(down, case.y)) / (2 * step)
        np.testing.assert_allclose(slope[smooth], gradient[smooth, j], atol=1e-8)
        compared += smooth.sum()
    assert compared > 15 * m


# Conjugates


@every_kind
@sizes
def test_conjugate_solves_the_program_over_B(kind, m, rng):
    batch = draw(kind, rng, m)
    g = draw_inside(batch, rng, m)
    conjugates = batch.loss.conjugate(g, batch.y)
    for i in range(2):
        case = batch.one(i)
        beta, constraints = program(case, m)
        # Phi* is a minimum over the beta that give g: the label's own entry is free.
        constraints.append(alpha_of(beta, case.y, m) == -g[i])
        optimum = cp.Problem(cp.Minimize(-case.delta @ beta), constraints).solve(**TIGHT)
        assert conjugates[i] == pytest.approx(optimum, abs=1e-7)


@every_kind
@sizes
def test_the_domain_of_the_conjugate_is_that_of_the_program(kind, m, rng):
    case = draw(kind, rng, m, 12)
    wide = case._replace(loss=Loss(case.loss.rho))  # for the whole family, too wide
    g = draw_inside(wide, rng, m) * rng.choice([0.9, 1.1], (12, 1))
    finite = np.isfinite(case.loss.conjugate(g, case.y))
    for i, y in enumerate(case.y):
        beta, constraints = program(case, m)
        distance = cp.Problem(
            cp.Minimize(cp.norm_inf(alpha_of(beta, y, m) + g[i])), constraints
        ).solve(**TIGHT)
        assert finite[i] == (distance < 1e-7)


@every_kind
@pytest.mark.parametrize("m", [2, 4, 7, 50])
def test_fenchel_young(kind, m, rng):
    case = draw(kind, rng, m)
    scores, g = case.draw_scores(rng), draw_inside(case, rng, m)
    value, conjugate = case.loss.value(scores, case.y), case.loss.conjugate(g, case.y)
    assert np.isfinite(conjugate).all()
    assert (value + conjugate >= (scores * g).sum(axis=1) - 1e-12).all()
    for at in (scores, case_ties(case, rng), 1e3 * scores):
        best = case.loss.subgradient(at, case.y)
        both = case.loss.value(at, case.y) + case.loss.conjugate(best, case.y)
        np.testing.assert_allclose(both, (at * best).sum(axis=1), rtol=1e-12, atol=1e-12)


@every_kind
@pytest.mark.parametrize("m", [2, 4, 50])
def test_the_conjugate_is_infinite_outside_the_domain(kind, m, rng):
    case = draw(kind, rng, m)
    at = np.arange(case.y.size)
    z = np.ones((case.y.size, m))
    z[at, case.y] = 0
    top = np.array([-alphas(brute_vertex(case, row), y) for row, y in zip(z, case.y, strict=True)])
    assert np.isfinite(case.loss.conjugate(top, case.y)).all()
    assert np.isinf(case.loss.conjugate(top * (1 + 1e-6), case.y)).all()
    assert np.isinf(case.loss.conjugate(-0.1 * top, case.y)).all()
    unbalanced = 0.5 * top
    unbalanced[at, case.y] += 1e-6
    assert np.isinf(case.loss.conjugate(unbalanced, case.y)).all()
    other = (case.y + 1) % m
    negative = np.zeros_like(top)
    negative[at, other], negative[at, case.y] = -1e-6, 1e-6
    assert np.isinf(case.loss.conjugate(negative, case.y)).all()


@pytest.mark.parametrize("scale", [1e-10, 1e-5, 1.0, 1e5, 1e10])
@pytest.mark.parametrize("make", [WeightedUsunier, WeightedTopK])
def test_the_domain_of_the_conjugate_scales_with_rho(make, scale, rng):
    loss = make(scale * np.array([1.0, 0.7, 0.2, 1e-11]))
    scores, y = 3 * rng.standard_normal((50, 6)), rng.integers(0, 6, 50)
    g = loss.subgradient(scores, y)
    both = loss.value(scores, y) + loss.conjugate(g, y)
    np.testing.assert_allclose(both, (scores * g).sum(axis=1), rtol=1e-12, atol=1e-12 * scale)
    inside = 0.4 * g[:-1] + 0.6 * loss.subgradient(scores[1:], y[:-1])
    assert np.isfinite(loss.conjugate(inside, y[:-1])).all()
    assert np.isinf(loss.conjugate(g * (1 + 1e-6), y)[np.abs(g).max(axis=1) > 0.99 * scale]).all()


# Envelopes


def each_smoothing(case, scores, mu):
    return case.loss.envelope(scores, case.y, mu), case.loss.dual_point(scores, case.y, mu)


@every_kind
@pytest.mark.parametrize("mu", [0.05, 1.0, 20.0])
def test_the_envelope_solves_the_program_over_B(kind, mu, rng):
    batch, m = draw(kind, rng, 5), 5
    scores = batch.draw_scores(rng)
    envelopes, points = each_smoothing(batch, scores, mu)
    for i in range(2):
        case = batch.one(i)
        beta, constraints = program(case, m)
        alpha = alpha_of(beta, case.y, m)
        objective = batch.margins(scores)[i] @ beta - mu / 2 * cp.sum_squares(alpha)
        optimum = cp.Problem(cp.Maximize(objective), constraints).solve(**TIGHT)
        assert envelopes[i] == pytest.approx(optimum, abs=1e-8)
        np.testing.assert_allclose(points[i], alpha.value, atol=1e-5)


@every_kind
@sizes
def test_minus_the_dual_point_is_the_gradient_of_the_envelope(kind, m, rng):
    case = draw(kind, rng, m)
    for scores in (case.draw_scores(rng), case_ties(case, rng), np.zeros((case.y.size, m))):
        for mu in (0.1, 2.0):
            _, alpha = each_smoothing(case, scores, mu)
            # (1/mu)-smooth: |E(s + h) - E(s) - <g, h>| <= |h|²/(2 mu), from below by 0.
            for step in (1e-4, 1.0):
                for j in range(m):
                    moved = case.loss.envelope(scores + step * np.eye(m)[j], case.y, mu)
                    rest = moved - case.loss.envelope(scores, case.y, mu) + step * alpha[:, j]
                    assert (rest >= -1e-12).all()
                    assert (rest <= step**2 / (2 * mu) + 1e-12).all()


@every_kind
@pytest.mark.parametrize("m", [2, 5, 60])
def test_the_envelope_lies_below_the_value_and_tends_to_it(kind, m, rng):
    case = draw(kind, rng, m)
    top = case.rho.sum()
    widest = top**2 + (case.rho**2).sum()  # |alpha|² of a vertex without the label
    for scores in (case.draw_scores(rng), case_ties(case, rng), 1e4 + case.draw_scores(rng)):
        value = case.loss.value(scores, case.y)
        before = np.full(case.y.size, -np.inf)
        for mu in (10.0, 1.0, 1e-2, 1e-4, 1e-8):
            envelope, alpha = each_smoothing(case, scores, mu)
            rounding = 1e-13 * (1 + value)
            assert (envelope <= value + rounding).all()
            assert (envelope >= value - mu / 2 * widest - rounding).all()
            assert (envelope >= before - rounding).all()
            before = envelope
            np.testing.assert_allclose(
                alpha, case.loss.project(-(scores + case.delta) / mu, case.y), atol=1e-11 / mu
            )
            np.testing.assert_allclose(
                envelope,
                -(alpha * case.margins(scores)).sum(axis=1) - mu / 2 * (alpha**2).sum(axis=1),
                atol=1e-12,
            )
        np.testing.assert_allclose(before, value, atol=1e-7 * top)


# Invariances


@every_kind
@pytest.mark.parametrize("m", [2, 5, 40])
def test_relabelling_the_classes_permutes_the_answers(kind, m, rng):
    case = draw(kind, rng, m)
    new = rng.permutation(m)  # class j becomes new[j]
    old = np.argsort(new)
    loss, renamed = case.loss, case.loss
    if loss.costs is not None:
        costs = loss.costs[:, old] if loss.per_example else loss.costs[np.ix_(old, old)]
        renamed = (
            type(loss)(costs, per_example=loss.per_example)
            if isinstance(loss, CostSensitive)
            else type(loss)(loss.rho, costs, per_example=loss.per_example)
        )
    y = new[case.y]
    scores = case.draw_scores(rng)
    close: dict[str, Any] = {"rtol": 1e-13, "atol": 1e-13}
    value = loss.value(scores, case.y)
    np.testing.assert_allclose(renamed.value(scores[:, old], y), value, **close)
    for name, extra in [("subgradient", ()), ("dual_point", (0.2,)), ("project", ())]:
        answer = getattr(loss, name)(scores, case.y, *extra)
        np.testing.assert_allclose(
            getattr(renamed, name)(scores[:, old], y, *extra), answer[:, old], **close
        )
    g = draw_inside(case, rng, m)
    np.testing.assert_allclose(renamed.conjugate(g[:, old], y), loss.conjugate(g, case.y), **close)


@every_kind
def test_a_constant_added_to_the_scores_changes_nothing(kind, rng):
    case = draw(kind, rng, 5)
    scores = rng.integers(-4, 5, case.delta.shape) / 4
    for name, extra in [("value", ()), ("subgradient", ()), ("envelope", (1,)), ("project", ())]:
        method = getattr(case.loss, name)
        np.testing.assert_allclose(
            method(scores + 1024, case.y, *extra), method(scores, case.y, *extra), atol=1e-14
        )


METHODS = [
    ("value", ()), ("subgradient", ()), ("envelope", (0.3,)), ("dual_point", (0.3,)),
    ("project", ()),
]  # fmt: skip


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (MaxHinge(), TopK(1)),
        (MaxHinge(), Usunier(1)),
        (MaxHinge(), WeightedTopK([1.0])),
        (MaxHinge(), CostSensitive(np.ones((6, 6)))),
        (TopK(3), WeightedTopK(np.full(3, 1 / 3))),
        (Usunier(3), WeightedUsunier([1 / 3, 1 / 3, 1 / 3, 0, 0, 0, 0])),
        (WeightedUsunier([2.0, 1.0, 0.0]), Loss([2, 1], 1 - np.eye(6))),
    ],
)
def test_special_cases_agree(one, other, rng):
    y = rng.integers(0, 6, 40)
    for scores in (rng.standard_normal((40, 6)), rng.integers(-2, 3, (40, 6)) / 2):
        for name, extra in METHODS:
            np.testing.assert_allclose(
                getattr(one, name)(scores, y, *extra),
                getattr(other, name)(scores, y, *extra),
                atol=1e-14,
            )
        g = one.subgradient(scores, y)
        np.testing.assert_allclose(one.conjugate(g, y), other.conjugate(g, y), atol=1e-14)


def test_rows_of_per_example_costs(rng):
    costs, scores = rng.random((5, 4)), rng.standard_normal((5, 4))
    y = np.array([0, 3, 1, 1, 2])
    loss = CostSensitive(costs, per_example=True)
    part = loss.rows(slice(1, 4))
    np.testing.assert_array_equal(part.value(scores[1:4], y[1:4]), loss.value(scores, y)[1:4])
    np.testing.assert_array_equal(loss.costs, costs)
    assert MaxHinge().rows(slice(1, 4)).costs is None
    shared = CostSensitive(costs[:4])
    assert shared.rows(slice(1, 2)) is shared


def test_a_batch_may_be_empty():
    empty, none = np.zeros((0, 4)), np.zeros(0, int)
    for loss in (MaxHinge(), TopK(2), Usunier(2)):
        assert loss.value(empty, none).shape == (0,)
        assert loss.conjugate(empty, none).shape == (0,)
        assert loss.project(empty, none).shape == (0, 4)


def test_input_is_left_alone(rng):
    scores, costs, y = rng.standard_normal((4, 4)), np.ones((4, 4)), np.arange(4)
    kept = scores.copy()
    loss = CostSensitive(costs)
    for name, extra in [*METHODS, ("conjugate", ())]:
        getattr(loss, name)(scores, y, *extra)
    np.testing.assert_array_equal(scores, kept)
    np.testing.assert_array_equal(costs, 1)


# Names and bad input


def test_losses_by_name(rng):
    options: dict[str, dict[str, Any]] = {"cost-sensitive": {"costs": 1 - np.eye(4)}}
    options |= {name: {"rho": [2, 1]} for name in ("weighted-top-k", "weighted-usunier")}
    made: list[Any] = [make_loss(name, k=3, **options.get(name, {})) for name in LOSSES]
    classes = [MaxHinge, CostSensitive, TopK, Usunier, WeightedTopK, WeightedUsunier]
    assert [type(loss) for loss in made] == [*classes, Softmax, TopKEntropy, SquaredHinge]
    assert [loss.rho.size for loss in made[:-1]] == [1, 1, 3, 3, 2, 2, 1, 3]
    assert make_loss(made[2]) is made[2]
    five: Any = make_loss("top-k")
    assert five.rho.size == 5
    costs = rng.random((9, 4))
    assert make_loss("cost-sensitive", costs=costs, per_example=True).per_example
    assert repr(Usunier(2)) == "Usunier(rho=[0.5 0.5])"


@pytest.mark.parametrize("make", [TopK, Usunier, lambda k: make_loss("top-k", k=k)])
@pytest.mark.parametrize("k", [0, -1, 1.5, float("nan"), float("inf"), None, "3", [2]])
def test_bad_k(make, k):
    with pytest.raises(ValueError, match=r"^k must be an integer >= 1, got "):
        make(k)


@pytest.mark.parametrize("k", [2, 2.0, np.int64(2), np.float64(2)])
def test_k_may_be_any_whole_number(k):
    np.testing.assert_array_equal(TopK(k).rho, [0.5, 0.5])


@pytest.mark.parametrize("make", [WeightedTopK, WeightedUsunier, Loss])
@pytest.mark.parametrize(
    "rho",
    [[1, 2], [1, -1], [-1, -2], [1, np.nan], [np.inf, 1], [0, 0], 0.0, [], [[1, 0], [0, 0]]],
)
def test_bad_rho(make, rho):
    with pytest.raises(ValueError, match=r"^rho must be a decreasing sequence of numbers >= 0"):
        make(rho)


@pytest.mark.parametrize(
    "costs", [[[0, -1], [1, 0]], [[0, np.nan], [1, 0]], [[0, np.inf], [1, 0]], [0, 1], 3.0]
)
def test_bad_costs(costs):
    with pytest.raises(ValueError, match=r"^costs must be a matrix of finite numbers >= 0, got "):
        CostSensitive(costs)


every_method = pytest.mark.parametrize(
    ("method", "extra"), [*METHODS, ("conjugate", ())], ids=lambda part: str(part)
)


@every_method
@pytest.mark.parametrize(
    ("costs", "per_example", "n"),
    [
        (np.ones((3, 3)), False, 2),
        (np.ones((2, 4)), False, 2),
        (np.ones((5, 4)), False, 5),
        (np.ones((0, 0)), False, 2),
        (np.ones((5, 4)), True, 2),
        (np.ones((5, 4)), True, 1),
        (np.ones((1, 4)), True, 5),
        (np.ones((5, 3)), True, 5),
    ],
)
def test_costs_of_the_wrong_shape(method, extra, costs, per_example, n):
    loss = CostSensitive(costs, per_example=per_example)
    with pytest.raises(ValueError, match=r"^costs must have shape"):
        getattr(loss, method)(np.zeros((n, 4)), np.zeros(n, int), *extra)


def test_one_vector_needs_one_row_of_costs():
    loss = CostSensitive(np.ones((5, 4)), per_example=True)
    with pytest.raises(ValueError, match=r"^costs must have shape .* for 1 examples"):
        loss.value(np.zeros(4), 0)


@every_method
@pytest.mark.parametrize("loss", [TopK(4), Usunier(4), WeightedTopK([3, 2, 1, 1, 1])])
def test_as_many_weights_as_classes(method, extra, loss):
    for shape, y in [((4,), 0), ((2, 4), [0, 1])]:
        with pytest.raises(ValueError, match=r"less than the number of classes, 4.*k .*rho"):
            getattr(loss, method)(np.zeros(shape), y, *extra)
    with pytest.raises(ValueError, match="less than the number of classes, 4"):
        loss.check(4)


@every_method
@pytest.mark.parametrize(
    ("shape", "y", "message"),
    [
        ((4,), 4, "labels must be between 0 and 3, got 4"),
        ((4,), -1, "labels must be between 0 and 3"),
        ((2, 4), [0, 9], "labels must be between 0 and 3"),
        ((4,), 1.5, "labels must be integers, got 1.5"),
        ((4,), float("nan"), "labels must be integers"),
        ((4,), float("inf"), "labels must be integers"),
        ((4,), "a", "labels must be integers"),
        ((4,), None, "labels must be integers"),
        ((2, 4), [0.5, 1], "labels must be integers"),
        ((2, 4), [0, 1, 2], "label per row.*\\(2, 4\\) and \\(3,\\)"),
        ((2, 4), 0, "label per row"),
        ((4,), [0], "label per row"),
        ((2, 4), [[0], [1]], "label per row"),
        ((2, 3, 4), [0, 1], "label per row"),
        ((), 0, "label per row"),
    ],
)
def test_bad_labels(method, extra, shape, y, message):
    with pytest.raises(ValueError, match=message):
        getattr(MaxHinge(), method)(np.zeros(shape), y, *extra)


@pytest.mark.parametrize("smoothing", [0, -1.0, float("nan"), float("inf")])
@pytest.mark.parametrize("method", ["envelope", "dual_point"])
def test_bad_smoothing(method, smoothing):
    with pytest.raises(ValueError, match=r"^smoothing must be positive and finite, got "):
        getattr(MaxHinge(), method)(np.zeros(3), 0, smoothing)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"name": "hinge"}, "^loss must be one of max-hinge, .* got 'hinge'"),
        ({"name": 3}, "^loss must be one of .* got 3"),
        ({"name": "weighted-top-k"}, "^loss='weighted-top-k' needs rho"),
        ({"name": "weighted-usunier"}, "^loss='weighted-usunier' needs rho"),
        ({"name": "cost-sensitive"}, "^loss='cost-sensitive' needs costs"),
    ],
)
def test_bad_names(arguments, message):
    with pytest.raises(ValueError, match=message):
        make_loss(**arguments)
