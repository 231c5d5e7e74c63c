"""Entities in rows of labels, and precision, recall and F1 of them.

A label is ``O`` or a mark and a type, ``B-NP``.  An entity begins at the marks B and S, and at I
and E where no entity of their type goes on; it ends before O, before a beginning, and after the
marks E and S: the definition of the shared tasks of CoNLL, for labels that obey no rule as well.
What is found is right if type, first and last token are.

References
----------
.. [1] E. F. Tjong Kim Sang, S. Buchholz. Introduction to the CoNLL-2000 shared task: chunking.
   CoNLL 2000.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

_MARKS = "BIES"


class Entity(NamedTuple):
    """What ``labels[start:stop]`` of a sentence are: an entity of a type."""

    type: str
    start: int
    stop: int


class EntityScore(NamedTuple):
    """How many entities there are, how many were found, and how many of these are right."""

    right: int
    found: int
    there: int

    @property
    def precision(self) -> float:
        """The share of those found that are right; 0 if none was found."""
        return self.right / self.found if self.found else 0.0

    @property
    def recall(self) -> float:
        """The share of those there are that were found; 0 if there are none."""
        return self.right / self.there if self.there else 0.0

    @property
    def f1(self) -> float:
        """The harmonic mean of precision and recall, ``2 right / (found + there)``."""
        return 2 * self.right / max(self.found + self.there, 1)


class EntityScores(NamedTuple):
    """Scores of the entities of all types together, and of each type.

    Printed, they are a table.
    """

    all: EntityScore
    types: dict[str, EntityScore]

    def __str__(self) -> str:
        rows = {**self.types, "all": self.all}
        width = max(map(len, rows))
        lines = [f"{'':{width}}  precision  recall      F1  entities"]
        lines += [
            f"{name:{width}}  {s.precision:9.4f}  {s.recall:6.4f}  {s.f1:6.4f}  {s.there:8,}"
            for name, s in rows.items()
        ]
        return "\n".join(lines)


def entities(labels: Sequence[str]) -> list[Entity]:
    """The entities in a row of labels.

    Parameters
    ----------
    labels : sequence of str

    Returns
    -------
    list of Entity
        In the order of their tokens.

    Examples
    --------
    >>> from cornerstep.structured import entities
    >>> entities(["B-NP", "I-NP", "O", "I-VP"])
    [Entity(type='NP', start=0, stop=2), Entity(type='VP', start=3, stop=4)]
    """
    found: list[Entity] = []
    start, kind = -1, ""  # of the entity that goes on, if start >= 0
    for t, label in enumerate([*labels, "O"]):
        mark, _, name = str(label).partition("-")
        if label != "O" and not (mark in _MARKS and len(mark) == 1 and name):
            raise ValueError(
                f"labels must be 'O' or B-, I-, E- or S- and a type, got {label!r} at token {t}"
            )
        goes_on = start >= 0 and mark in "IE" and name == kind
        if start >= 0 and not goes_on:
            found.append(Entity(kind, start, t))
            start = -1
        if label != "O" and not goes_on:
            start, kind = t, name
        if mark in "ES":
            found.append(Entity(kind, start, t + 1))
            start = -1
    return found


def entity_scores(y_true: Sequence[Sequence[str]], y_pred: Sequence[Sequence[str]]) -> EntityScores:
    """Precision, recall and F1 of whole entities, in all and per type.

    Parameters
    ----------
    y_true, y_pred : sequences of sequences of str
        The labels of the tokens of each sentence.

    Returns
    -------
    EntityScores

    Examples
    --------
    >>> from cornerstep.structured import entity_scores
    >>> scores = entity_scores([["B-NP", "I-NP", "O"]], [["B-NP", "I-NP", "B-NP"]])
    >>> scores.all.precision, scores.all.recall
    (0.5, 1.0)
    """
    if len(y_true) != len(y_pred):
        raise ValueError(
            f"y_true and y_pred must be as many sentences, got {len(y_true)} and {len(y_pred)}"
        )
    right, found, there = Counter[str](), Counter[str](), Counter[str]()
    for i, (labels, answers) in enumerate(zip(y_true, y_pred, strict=True)):
        if len(labels) != len(answers):
            raise ValueError(
                f"y_pred[{i}] must have a label for each of the {len(labels)} tokens of y_true[{i}]"
                f", got {len(answers)}"
            )
        own, said = entities(labels), entities(answers)
        there.update(entity.type for entity in own)
        found.update(entity.type for entity in said)
        right.update(entity.type for entity in {*own} & {*said})
    types = {
        name: EntityScore(right[name], found[name], there[name])
        for name in sorted({*there, *found})
    }
    return EntityScores(EntityScore(right.total(), found.total(), there.total()), types)


def of_entities(labels: Sequence[Any]) -> bool:
    """Whether labels are those of entities: some have a mark and a type, and all others are O."""
    marked = [str(label) for label in labels if label != "O"]
    return bool(marked) and all(v[0] in _MARKS and v[1:2] == "-" and v[2:] for v in marked)
