"""What :func:`cornerstep.minimize` minimises."""

from cornerstep.optimiser.autograd import TorchObjective
from cornerstep.optimiser.composites import (
    Composite,
    Entropy,
    Huber,
    KullbackLeibler,
    Logistic,
    Poisson,
)
from cornerstep.optimiser.objective_checks import check_objective
from cornerstep.optimiser.objectives import (
    LeastSquares,
    Objective,
    Position,
    Quadratic,
    Ray,
    Smooth,
    SymmetricOperator,
)
from cornerstep.optimiser.sampled import Sampled

__all__ = [
    "Composite",
    "Entropy",
    "Huber",
    "KullbackLeibler",
    "LeastSquares",
    "Logistic",
    "Objective",
    "Poisson",
    "Position",
    "Quadratic",
    "Ray",
    "Sampled",
    "Smooth",
    "SymmetricOperator",
    "TorchObjective",
    "check_objective",
]
