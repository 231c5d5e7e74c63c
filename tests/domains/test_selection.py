"""The budgeted selection against sorting."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cornerstep.domains.selection import fill_smallest_first

quick = settings(max_examples=200, deadline=None, derandomize=True)
# Few distinct keys, so that ties are the rule; caps on a grid, so that budgets end exactly.
key = st.sampled_from([-2.0, -1.0, 0.0, 0.5, 1.0]) | st.floats(-5, 5)
cap = st.sampled_from([0.0, 0.25, 0.5, 1.0, 3.0])
total = st.integers(0, 80).map(lambda k: k / 8) | st.floats(0, 10)


def by_sorting(keys, caps, total):
    """The amounts in order of the keys: a cap each, while the budget lasts."""
    order = np.argsort(keys, kind="stable")
    before = np.concatenate([[0.0], np.cumsum(caps[order])[:-1]])
    amounts = np.zeros(len(keys))
    amounts[order] = np.clip(total - before, 0.0, caps[order])
    return amounts


def check(keys, caps, total):
    chosen, amounts = fill_smallest_first(keys, caps, total)
    every_cap = np.broadcast_to(caps, keys.shape).astype(float)
    reference = by_sorting(keys, every_cap, total)
    assert len(set(chosen.tolist())) == chosen.size == amounts.size
    assert (amounts > 0).all()
    assert (amounts <= every_cap[chosen]).all()
    assert amounts.sum() == pytest.approx(min(total, every_cap.sum()), abs=1e-11)
    assert keys[chosen] @ amounts == pytest.approx(keys @ reference, abs=1e-9)
    assert (amounts < every_cap[chosen]).sum() <= 1
    if np.unique(keys).size == keys.size:
        full = np.zeros(keys.size)
        full[chosen] = amounts
        np.testing.assert_allclose(full, reference, atol=1e-11)


@quick
@given(st.lists(key, max_size=25), st.sampled_from([0.25, 1 / 3, 0.1, 1.0, 7.0]), total)
def test_one_cap(keys, cap, total):
    check(np.array(keys), cap, total)


@quick
@given(st.lists(st.tuples(key, cap), max_size=25), total)
def test_a_cap_each(pairs, total):
    keys, caps = np.array(pairs, dtype=float).reshape(-1, 2).T
    check(keys.copy(), caps.copy(), total)


@pytest.mark.parametrize("caps", [0.1, np.full(30, 0.1)], ids=["one cap", "a cap each"])
@pytest.mark.parametrize("count", range(31))
def test_whole_caps_are_whole(caps, count):
    """3 * 0.1 is not 0.3: the rounding must not become a thirty-first entry."""
    keys = np.random.default_rng(count).permutation(30).astype(float)
    chosen, amounts = fill_smallest_first(keys, caps, count * 0.1)
    large = amounts > 1e-12
    assert sorted(keys[chosen[large]]) == list(range(count))
    np.testing.assert_allclose(amounts[large], 0.1, rtol=1e-12)


@pytest.mark.parametrize("caps", [1.0, np.ones(5)], ids=["one cap", "a cap each"])
def test_the_ends_of_the_budget(caps):
    keys = np.array([3.0, 1.0, 2.0, 1.0, 5.0])
    for nothing in (
        fill_smallest_first(keys, caps, 0.0),
        fill_smallest_first(keys[:0], np.ones(0), 2.0),
    ):
        assert nothing[0].size == nothing[1].size == 0
    for budget in (5.0, 5.5, 1e6):
        chosen, amounts = fill_smallest_first(keys, caps, budget)
        assert sorted(chosen) == [0, 1, 2, 3, 4]
        assert (amounts == 1.0).all()
    chosen, amounts = fill_smallest_first(keys, caps, 4.25)
    assert amounts[chosen == 4] == 0.25


class NoSort(np.ndarray):
    """Keys that can be partitioned and compared but not sorted."""

    def argsort(self, *args, **kwargs):
        raise AssertionError("a full sort")

    sort = argsort


@pytest.mark.parametrize("caps", [0.5, np.full(1000, 0.5)], ids=["one cap", "a cap each"])
def test_no_full_sort(caps):
    keys = np.random.default_rng(0).standard_normal(1000)
    chosen, _ = fill_smallest_first(keys.view(NoSort), caps, 33.3)
    assert set(np.asarray(chosen).tolist()) == set(keys.argsort()[:67].tolist())
