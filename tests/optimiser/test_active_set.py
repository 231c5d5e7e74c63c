"""The active set: ``x = sum of weight * atom``, each atom once, all weights positive."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cornerstep.core.vectors import SparseVector, Vector, dense
from cornerstep.optimiser import ActiveSet

N = 6


def _atom(i: int, form: str) -> Vector:
    """Atom i of a list of ten, in one of its forms; the forms are equal as vectors."""
    values = np.random.default_rng(i).permutation([2.0 + i, -1.0, 0.5, 0.0, 0.0, 0.0])
    indices = values.nonzero()[0]
    if form == "reversed":
        indices = indices[::-1]
    if form == "explicit zero":
        indices = np.append(indices, (values == 0).nonzero()[0][0])
    return values if form == "dense" else SparseVector(indices, values[indices], N)


FORMS = ("sparse", "reversed", "explicit zero", "dense")


class _Reference:
    """The same with a dictionary."""

    def __init__(self, i: int) -> None:
        self.weights = {i: 1.0}

    def point(self) -> np.ndarray:
        return np.sum([w * dense(_atom(i, "dense")) for i, w in self.weights.items()], axis=0)

    def change(self, scale: float, changes: list[tuple[int, float]], drop: int | None) -> None:
        self.weights = {i: scale * w for i, w in self.weights.items()}
        for i, change in changes:
            self.weights[i] = self.weights.get(i, 0.0) + change
        if drop is not None:
            self.weights.pop(drop, None)
        self.weights = {i: w for i, w in self.weights.items() if w > 0}


@given(
    start=st.integers(0, 9),
    moves=st.lists(
        st.tuples(
            st.sampled_from(["towards", "away", "shift"]),
            st.integers(0, 9),
            st.integers(0, 9),
            st.sampled_from([0.0, 1e-3, 0.1, 0.5, 0.9, 1.0]),
            st.sampled_from(FORMS),
        ),
        max_size=30,
    ),
)
@settings(max_examples=200, deadline=None, derandomize=True)
def test_any_sequence_of_steps_keeps_the_decomposition(start: int, moves: list) -> None:
    active, reference = ActiveSet(_atom(start, "sparse")), _Reference(start)
    names = {dense(_atom(i, "dense")).tobytes(): i for i in range(10)}
    gradient = np.random.default_rng(0).standard_normal(N)
    for move, i, j, share, form in moves:
        k = j % len(active)
        name = names[(dense(active[k]) + 0.0).tobytes()]
        weight = float(active.weights[k])
        drop = share == 1.0
        if move == "towards":
            active.towards(_atom(i, form), share)
            reference.change(1 - share, [(i, share)], None)
        elif move == "away" and len(active) > 1:
            step = share * weight / (1 - weight)
            active.away(k, step, drop)
            reference.change(1 + step, [(name, -step)], name if drop else None)
        elif move == "shift" and name != i:
            step = share * weight
            active.shift(k, _atom(i, form), step, drop)
            reference.change(1.0, [(i, step), (name, -step)], name if drop else None)
        found = {names[(dense(atom) + 0.0).tobytes()] for atom in active.atoms}
        assert len(found) == len(active)  # each once
        assert found == set(reference.weights)
        assert active.weights.min() > 0
        # Moving away from an atom of weight w multiplies what went before, errors too, by 1/(1-w).
        assert active.weights.sum() == pytest.approx(1.0, abs=1e-9)
        np.testing.assert_allclose(active.point(), reference.point(), rtol=0, atol=1e-8)
        expected = [dense(atom) @ gradient for atom in active.atoms]
        np.testing.assert_allclose(active.scores(gradient), expected, rtol=0, atol=1e-13)


@pytest.mark.parametrize("first", FORMS)
@pytest.mark.parametrize("second", FORMS)
def test_equal_atoms_merge_in_every_form(first: str, second: str) -> None:
    active = ActiveSet(_atom(0, first))
    active.towards(_atom(0, second), 0.5)
    assert len(active) == 1
    assert active.weights[0] == 1.0


def test_minus_zero_is_zero() -> None:
    active = ActiveSet(np.array([1.0, 0.0]))
    active.towards(np.array([1.0, -0.0]), 0.5)
    assert len(active) == 1


def test_a_whole_step_leaves_one_atom() -> None:
    active = ActiveSet(_atom(0, "dense"))
    active.towards(_atom(1, "sparse"), 0.3)
    active.towards(_atom(2, "sparse"), 1.0)
    assert len(active) == 1
    np.testing.assert_array_equal(active.point(), dense(_atom(2, "dense")))


def test_a_step_of_nothing_adds_nothing() -> None:
    active = ActiveSet(_atom(0, "sparse"))
    active.towards(_atom(1, "sparse"), 0.0)
    active.shift(0, _atom(1, "sparse"), 0.0, drop=False)
    assert len(active) == 1


def test_an_atom_shifted_onto_itself_stays() -> None:
    active = ActiveSet(_atom(0, "sparse"))
    active.shift(0, _atom(0, "reversed"), 1.0, drop=True)
    assert len(active) == 1
    assert active.weights[0] == 1.0


def test_away_from_an_atom_of_nearly_all_the_weight() -> None:
    """``w (1 + step) - step`` would lose all digits of the weight that is left."""
    for rest in (1e-6, 1e-9, 1e-12):
        active = ActiveSet(_atom(0, "sparse"))
        active.towards(_atom(1, "sparse"), rest)
        weight = float(active.weights[0])
        active.away(0, (1 - 1e-8) * weight / (1 - weight), drop=False)
        assert active.weights[0] == pytest.approx(1e-8, rel=1e-6)


def test_the_store_grows_past_its_first_size() -> None:
    rng = np.random.default_rng(0)
    atoms = [
        SparseVector(rng.permutation(50)[: 1 + i % 5], np.ones(1 + i % 5), 50) for i in range(40)
    ]
    active, x = ActiveSet(atoms[0]), dense(atoms[0])
    for t, atom in enumerate(atoms[1:]):
        active.towards(atom, 1 / (t + 2))
        x = x + (dense(atom) - x) / (t + 2)
    np.testing.assert_allclose(active.point(), x, atol=1e-14)
    active.towards(np.arange(50.0), 0.5)  # the first dense one: all rows become dense
    x = 0.5 * x + 0.5 * np.arange(50.0)
    np.testing.assert_allclose(active.point(), x, atol=1e-13)
    gradient = rng.standard_normal(50)
    np.testing.assert_allclose(
        active.scores(gradient), [dense(atom) @ gradient for atom in active.atoms], atol=1e-13
    )
    assert repr(active) == f"ActiveSet({len(active)} atoms)"


@given(
    first=st.tuples(st.integers(0, 9), st.sampled_from(FORMS)),
    more=st.lists(st.tuples(st.integers(0, 9), st.sampled_from(FORMS)), max_size=12),
)
@settings(deadline=None)
def test_many_atoms_at_a_time(first: tuple[int, str], more: list[tuple[int, str]]) -> None:
    """As one after the other: each once, in its order, with weight 0 where it is new."""
    together, alone = ActiveSet(_atom(*first)), ActiveSet(_atom(*first))
    together.extend([_atom(*name) for name in more])
    for name in more:
        alone.add(_atom(*name))
    assert [dense(a).tolist() for a in together.atoms] == [dense(a).tolist() for a in alone.atoms]
    np.testing.assert_array_equal(together.weights, alone.weights)
    gradient = np.arange(1.0, N + 1)
    expected = np.array([float(a @ gradient) for a in alone.atoms])
    np.testing.assert_allclose(together.scores(gradient), expected)
