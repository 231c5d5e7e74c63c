"""Constraints on labels in a row: which may follow each other, which may come first and last.

They are kept as a table of what is forbidden: a row per label with the labels that may not come
right after it, a row for labels that may not come first, a row for those that may not come last.
Two rules are known by name.  Labels are then ``O`` or a mark and a type, ``B-NP``:

- ``BIO``: ``I-NP`` continues a ``B-NP`` or ``I-NP``, and follows nothing else;
- ``BIOES``: what ``B-NP`` begins, ``I-NP`` continues until ``E-NP`` ends it; ``S-NP`` stands alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt

from cornerstep.structured.entities import of_entities
from cornerstep.structured.models.base import shortened

_Table = npt.NDArray[np.bool_]

#: By the name of a rule: the marks it has, those that continue, those that must be continued.
_RULES = {"BIO": ("BI", "I", ""), "BIOES": ("BIES", "IE", "BI")}
_OPEN = "BI"  # marks that may be continued

_FORMS = (
    f"{', '.join(map(repr, _RULES))}, a list of pairs (label, label after it) that are forbidden, "
    "with None for the begin and the end, or None"
)


def check_constraints(constraints: Any) -> None:
    """Complain about what is neither a rule's name nor pairs."""
    if constraints is None or (isinstance(constraints, str) and constraints in _RULES):
        return
    pairs = isinstance(constraints, list | tuple) and all(
        isinstance(pair, list | tuple) and len(pair) == 2 and tuple(pair) != (None, None)
        for pair in constraints
    )
    if not pairs:
        raise ValueError(f"constraints must be {_FORMS}, got {shortened(constraints)}")


def forbidden_table(constraints: Any, labels: npt.NDArray[Any]) -> _Table | None:
    """What is forbidden, of shape (m + 2, m) for m labels; None without constraints."""
    check_constraints(constraints)
    if constraints is None:
        return None
    if isinstance(constraints, str):
        return _by_rule(constraints, labels)
    m = labels.size
    places = {label: k for k, label in enumerate(labels.tolist())}
    table = np.zeros((m + 2, m), bool)
    for before, after in constraints:
        for label in (before, after):
            if label is not None and label not in places:
                raise ValueError(
                    f"constraints must be pairs of labels that there are, got {label!r}"
                )
        if after is None:
            table[m + 1, places[before]] = True
        else:
            table[m if before is None else places[before], places[after]] = True
    return table


def _by_rule(name: str, labels: npt.NDArray[Any]) -> _Table:
    marks, continuing, unfinished = _RULES[name]
    parts = [str(label).partition("-") for label in labels]
    for label, (mark, _, kind) in zip(labels, parts, strict=True):
        if str(label) != "O" and not (kind and len(mark) == 1 and mark in marks):
            raise ValueError(
                f"labels must be 'O' or {', '.join(f'{m}-TYPE' for m in marks)} for "
                f"constraints={name!r}, got {label.item()!r}"
            )
    m = labels.size
    own, types = (np.array([part[k] for part in parts]) for k in (0, 2))
    continues, goes_on = np.isin(own, list(continuing)), np.isin(own, list(unfinished))
    joined = np.isin(own, list(_OPEN))[:, None] & continues & (types[:, None] == types)
    table = np.empty((m + 2, m), bool)
    table[:m] = (continues | goes_on[:, None]) & ~joined
    table[m], table[m + 1] = continues, goes_on
    return table


def rule_of(labelings: Sequence[Sequence[str]]) -> str | None:
    """The strictest rule known by name that all labelings obey; None if there is none."""
    chains = [labels for labels in labelings if len(labels)]
    if not of_entities(list(chain.from_iterable(chains))):
        return None
    known, codes = np.unique(list(chain.from_iterable(chains)), return_inverse=True)
    ptr = np.cumsum([0, *map(len, chains)]).astype(np.int64)
    for name in reversed(_RULES):
        try:
            table = _by_rule(name, known)
            ends = np.ones((len(chains), 2), bool)
            require_allowed(table, codes, ptr, known, ends, lambda i, t: f"labelings[{i}]")
        except ValueError:
            continue
        return name
    return None


def require_possible(table: _Table, lengths: Sequence[int], name: Callable[[int], str]) -> None:
    """Complain about a chain that is too long, or too short, for any labeling to be allowed."""
    m = table.shape[1]
    wanted = set(lengths)
    reached: _Table = ~table[m]
    steps = 1
    while wanted:
        if steps in wanted and not (reached & ~table[m + 1]).any():
            i = next(i for i, length in enumerate(lengths) if length == steps)
            raise ValueError(
                f"constraints allow no labeling of length {steps}, which {name(i)} has"
            )
        wanted.discard(steps)
        after: _Table = np.any(~table[:m][reached], axis=0)
        if (after == reached).all():
            wanted -= {length for length in wanted if length > steps + 1}
        reached, steps = after, steps + 1


def require_allowed(
    table: _Table,
    codes: npt.NDArray[Any],
    ptr: npt.NDArray[np.int64],
    labels: npt.NDArray[Any],
    ends: npt.NDArray[np.bool_],
    name: Callable[[int, int], str],
) -> None:
    """Complain about the first chain whose labels are forbidden.

    Parameters
    ----------
    table : array of shape (m + 2, m)
    codes : array
        The numbers of the labels of all chains.
    ptr : array
        Where the chains begin and end.
    labels : array of m
    ends : bool array of shape (n, 2)
        Whether each chain has the first and the last node of its sequence.
    name : function of a chain and a node in it
        What complaints call it.
    """
    m = labels.size
    before = np.concatenate([[m], codes[:-1]])
    before[ptr[:-1]] = m
    wrong = table[before, codes]
    wrong[ptr[:-1]] &= ends[:, 0]
    last = np.zeros(codes.size, bool)
    last[ptr[1:] - 1] = table[m + 1, codes[ptr[1:] - 1]] & ends[:, 1]
    if not (wrong | last).any():
        return
    node = int(np.flatnonzero(wrong | last)[0])
    i = int(np.searchsorted(ptr, node, side="right")) - 1
    label, at = labels[codes[node]].item(), name(i, node - int(ptr[i]))
    if not wrong[node]:
        where = "as the last label"
    elif before[node] == m:
        where = "as the first label"
    else:
        where = f"after {labels[before[node]].item()!r}"
    raise ValueError(f"{at} must obey the constraints, got {label!r} {where}")
