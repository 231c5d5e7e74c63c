"""The losses of multi-class SVMs."""

from cornerstep.multiclass.entropic import Softmax, TopKEntropy
from cornerstep.multiclass.loss_checks import check_loss
from cornerstep.multiclass.losses import (
    LOSSES,
    CostSensitive,
    Loss,
    MaxHinge,
    TopK,
    Usunier,
    WeightedTopK,
    WeightedUsunier,
    make_loss,
)
from cornerstep.multiclass.simplex_loss import SimplexLoss
from cornerstep.multiclass.squared import SquaredHinge

__all__ = [
    "LOSSES",
    "CostSensitive",
    "Loss",
    "MaxHinge",
    "SimplexLoss",
    "Softmax",
    "SquaredHinge",
    "TopK",
    "TopKEntropy",
    "Usunier",
    "WeightedTopK",
    "WeightedUsunier",
    "check_loss",
    "make_loss",
]
