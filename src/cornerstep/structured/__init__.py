"""Structured models: what labelings look like, what errors cost, how to find the best one.

A model is four methods (:class:`StructuredModel`); these come ready made.
"""

from cornerstep.structured.models.base import StructuredModel
from cornerstep.structured.models.chain import ChainModel
from cornerstep.structured.models.checks import check_model
from cornerstep.structured.models.graph import GraphModel
from cornerstep.structured.models.matching import MatchingModel
from cornerstep.structured.models.multiclass import MulticlassModel
from cornerstep.structured.models.multilabel import MultilabelModel

__all__ = [
    "ChainModel",
    "GraphModel",
    "MatchingModel",
    "MulticlassModel",
    "MultilabelModel",
    "StructuredModel",
    "check_model",
]
