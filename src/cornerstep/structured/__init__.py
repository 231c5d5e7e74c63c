"""Structured models: what labelings look like, what errors cost, how to find the best one.

A model is four methods (:class:`StructuredModel`); these come ready made.  Beside them: entities in
rows of labels, and how many of them were found.
"""

from cornerstep.structured.conll import ConllSentences, read_conll
from cornerstep.structured.entities import (
    Entity,
    EntityScore,
    EntityScores,
    entities,
    entity_scores,
)
from cornerstep.structured.models.base import StructuredModel
from cornerstep.structured.models.chain import ChainModel
from cornerstep.structured.models.checks import check_model
from cornerstep.structured.models.graph import GraphModel
from cornerstep.structured.models.matching import MatchingModel
from cornerstep.structured.models.multiclass import MulticlassModel
from cornerstep.structured.models.multilabel import MultilabelModel
from cornerstep.structured.models.second_order import SecondOrderChainModel
from cornerstep.structured.models.segments import SegmentModel

__all__ = [
    "ChainModel",
    "ConllSentences",
    "Entity",
    "EntityScore",
    "EntityScores",
    "GraphModel",
    "MatchingModel",
    "MulticlassModel",
    "MultilabelModel",
    "SecondOrderChainModel",
    "SegmentModel",
    "StructuredModel",
    "check_model",
    "entities",
    "entity_scores",
    "read_conll",
]
