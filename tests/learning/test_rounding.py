"""Certificates of a value and a bound that are off by rounding."""

from __future__ import annotations

import math

import pytest

from cornerstep.learning.rounding import Rounding, certified


def test_rounding_widens_the_gap() -> None:
    look = certified(2.0, 1.0, Rounding(0.25, 0.5), ())
    assert look.value == 2.25
    assert look.bound == 0.5
    assert look.gap >= 1.75


@pytest.mark.parametrize("bound", [2.5, 1e19, math.inf, math.nan, -1.0])
def test_bounds_that_the_value_denies_prove_nothing(bound: float) -> None:
    look = certified(2.0, bound, Rounding(1e-9, 1e-9), ())
    assert look.bound == 0.0
    assert look.gap == look.value


def test_a_bound_that_meets_the_value_leaves_a_gap_of_rounding() -> None:
    assert 0.0 < certified(2.0, 2.0, Rounding(1e-9, 1e-9), ()).gap < 1e-8
