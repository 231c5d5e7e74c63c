"""The orchestration of block ascent: its schedule, its certificates, the points it hands out."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable

import numpy as np
import pytest
import scipy.sparse as sp

from cornerstep.multiclass.examples import Examples, KernelExamples
from cornerstep.multiclass.problem import MulticlassProblem
from cornerstep.multiclass.solvers.block import BlockAscent
from cornerstep.multiclass.solvers.block_settings import BlockSettings
from cornerstep.multiclass.solvers.pace import ACCELERATED, SECOND_ORDER, SWEEPS, Pace
from support.multiclass_problems import LOSS_KINDS, draw

every_loss = pytest.mark.parametrize("kind", LOSS_KINDS)
every_data = pytest.mark.parametrize("data", ["dense", "csr", "gram"])
every_stage = pytest.mark.parametrize(  # that there is for the data
    ("data", "stage"),
    [
        *[("dense", stage) for stage in (SWEEPS, ACCELERATED, SECOND_ORDER)],
        *[("csr", stage) for stage in (SWEEPS, ACCELERATED)],
        *[("gram", stage) for stage in (SWEEPS, SECOND_ORDER)],
    ],
)


def posed(kind, data, smoothing=0.0, seed=0):
    given = draw(kind, smoothing, seed)
    makes: dict[str, Callable[[], Examples | KernelExamples]] = {
        "dense": lambda: Examples(given.X),
        "csr": lambda: Examples(sp.csr_array(given.X)),
        "gram": lambda: KernelExamples.of_matrix(given.X @ given.X.T),
    }
    examples = makes[data]()
    return MulticlassProblem(examples, given.y, given.rho.size, given.loss, given.scales, smoothing)


def started(kind, data, stage):
    """A solver after some rounds of a stage."""
    solver = BlockAscent(posed(kind, data), np.random.default_rng(0), 1e-9)
    for _ in range(3):
        solver.look()
        solver.pace.stage = stage
        solver.move()
    solver.look()
    solver.pace.stage = stage
    return solver


# -- certificates ----------------------------------------------------------------------------------


@every_loss
@every_stage
def test_a_certificate_leaves_schedule_and_dual_points_alone(kind, data, stage):
    solver = started(kind, data, stage)
    parts = (solver.pace, solver.second_order, solver.order.rng.bit_generator.state)
    before, sweeps = copy.deepcopy(parts), solver.sweeps
    pool = solver.iterate.pool
    beta, image = pool[2].copy(), solver.iterate.image.copy()
    solver.certify(solver.point)
    assert vars(solver.pace) == vars(before[0])
    unlike = {"problem"}  # a copy compares by identity
    for name in vars(solver.second_order).keys() - unlike:
        assert getattr(solver.second_order, name) == getattr(before[1], name)
    assert solver.order.rng.bit_generator.state == before[2]
    assert solver.sweeps == sweeps
    assert solver.iterate.pool is pool
    assert np.array_equal(pool[2], beta)
    assert np.allclose(solver.iterate.image, image, rtol=1e-12, atol=1e-12)


@every_loss
@every_stage
def test_points_are_never_changed(kind, data, stage):
    solver = started(kind, data, stage)
    seen = []
    for _ in range(6):
        solver.look()
        seen.append((solver.point, copy.deepcopy(solver.point)))
        solver.pace.stage = stage
        solver.move()
        solver.certify(solver.point)
    for point, before in seen:
        assert np.array_equal(point.image, before.image)
        assert all(np.array_equal(a, b) for a, b in zip(point.pool, before.pool, strict=True))


@every_data
def test_a_certificate_is_of_the_point_given(data):
    """Also of an earlier one than the best."""
    solver = started("usunier", data, SWEEPS)
    early, value = solver.point, solver.best.value
    for _ in range(10):
        solver.move()
        solver.look()
    assert solver.best.value < value
    assert solver.certify(early).value == pytest.approx(value, rel=1e-9)
    assert solver.point.image is early.image or data == "gram"


# -- the schedule ----------------------------------------------------------------------------------


def paced(gaps, target=1e-3):
    pace = Pace(BlockSettings(), target, kernel=False, second_order=True)
    for gap in gaps:
        pace.note_look(gap, 1.0)
        pace.note_sweeps(4, 1.0, 1.0, 0.1)
        pace.rounds += 1
    return pace


@pytest.mark.parametrize("gap", [0.1, 1.0, 1.9, 3e-3, 1e-300])
def test_gaps_that_fall_by_rounding_alone(gap):
    """A pace of nothing calls for as many sweeps as there may be, not for infinitely many."""
    pace = paced([5.0, 4.0, 3.0, 2.0])
    for last in (math.nextafter(gap, math.inf), gap):
        pace.note_look(last, 1.0)
    pace.stage = SWEEPS
    assert 2 <= pace.most_sweeps() <= BlockSettings().most_sweeps


def test_gaps_of_zero_on_the_way():
    """A look may claim a gap of 0 that its certificate does not confirm."""
    pace = paced([1.0, 0.5, 0.0, 0.0, 0.1, 0.1, 0.1])
    assert pace.stage == ACCELERATED
    assert pace.most_sweeps() == BlockSettings().sweeps_per_step


def test_stages_follow_the_pace():
    assert paced(0.1 ** np.arange(6)).stage == SWEEPS
    assert paced(0.9 ** np.arange(6)).stage == ACCELERATED
    assert paced(0.7 ** np.arange(13)).stage == ACCELERATED
    assert paced(0.99 ** np.arange(20)).stage == SECOND_ORDER
    assert paced(0.99 ** np.arange(20), target=0.95).stage == SWEEPS


def test_float32_serves_until_the_gap_is_small_or_stands_still():
    settings = BlockSettings()
    assert not paced([1.0, 0.1]).needs_double()
    assert paced([1.0, 0.5 * settings.single_until]).needs_double()
    assert paced([1.0] + [0.999] * settings.stale_rounds).needs_double()
