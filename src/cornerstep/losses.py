"""The losses of multi-class SVMs."""

from cornerstep.multiclass.losses import (
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
    "CostSensitive",
    "Loss",
    "MaxHinge",
    "TopK",
    "Usunier",
    "WeightedTopK",
    "WeightedUsunier",
    "make_loss",
]
