"""The losses of multi-class SVMs."""

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

__all__ = [
    "LOSSES",
    "CostSensitive",
    "Loss",
    "MaxHinge",
    "TopK",
    "Usunier",
    "WeightedTopK",
    "WeightedUsunier",
    "make_loss",
]
