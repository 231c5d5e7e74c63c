"""What :func:`cornerstep.minimize` minimises."""

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

__all__ = [
    "LeastSquares",
    "Objective",
    "Position",
    "Quadratic",
    "Ray",
    "Smooth",
    "SymmetricOperator",
    "check_objective",
]
