"""Structured models: what labelings look like, what errors cost, how to find the best one.

A model is four methods (:class:`StructuredModel`); these come ready made.
"""

from cornerstep.structured.base import StructuredModel
from cornerstep.structured.chain import ChainModel
from cornerstep.structured.checks import check_model
from cornerstep.structured.graph import GraphModel
from cornerstep.structured.matching import MatchingModel
from cornerstep.structured.multiclass import MulticlassModel
from cornerstep.structured.multilabel import MultilabelModel

__all__ = [
    "ChainModel",
    "GraphModel",
    "MatchingModel",
    "MulticlassModel",
    "MultilabelModel",
    "StructuredModel",
    "check_model",
]
