"""The parameters of the structured SVM: each checked, with one line that says what it may be."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any

import numpy as np

from cornerstep.learning.parameters import check_stopping
from cornerstep.optimiser.order import ORDERS
from cornerstep.structured.models.base import StructuredModel

BLOCK_SOLVERS = ("bcfw", "bcfw-pairwise", "bcfw-away", "bcfw-auto")
SOLVERS = (*BLOCK_SOLVERS, "fw", "subgradient", "extragradient")
GEOMETRIES = ("entropic", "euclidean")
LOSSES = ("max-hinge", "softmax")


def check_parameters(model: Any) -> None:
    """Say which parameter of the estimator is wrong, and what it may be."""
    if not isinstance(model.model, StructuredModel):
        raise TypeError(f"model must be a StructuredModel, got {model.model!r}")
    check_stopping(model)
    for name, nothing in {"C": None, "lam": "auto", "radius": None}.items():
        value = getattr(model, name)
        left_out = type(value) is type(nothing) and value == nothing
        if not left_out and not (isinstance(value, Real) and 0 < float(value) < np.inf):
            raise ValueError(f"{name} must be a positive number or {nothing!r}, got {value!r}")
    choices = {
        "loss": (model.loss, LOSSES),
        "solver": (model.solver, SOLVERS),
        "sampling": (model.sampling, ORDERS),
        "geometry": (model.geometry, GEOMETRIES),
    }
    for name, (choice, allowed) in choices.items():
        if choice not in allowed:
            raise ValueError(f"{name} must be one of {', '.join(allowed)}, got {choice!r}")
    least = {"check_every": (model.check_every, 1), "cache_passes": (model.cache_passes, 0),
             "cache_size": (model.cache_size, 0)}  # fmt: skip
    for name, (count, low) in least.items():
        if not (isinstance(count, Integral) and int(count) >= low):
            raise ValueError(f"{name} must be an integer >= {low}, got {count!r}")
    flags = {"averaging": model.averaging, "warm_start": model.warm_start, "debug": model.debug}
    for name, flag in flags.items():
        if not isinstance(flag, (bool, np.bool_)):
            raise ValueError(f"{name} must be True or False, got {flag!r}")
    check_loss(model.loss, model.solver)
    if model.loss == "softmax" and not hasattr(model.model, "encode_chains"):
        raise ValueError(
            "loss='softmax' needs a model whose labelings can be summed over, ChainModel or "
            f"MulticlassModel, got {model.model!r}"
        )
    if model.loss == "softmax" and model.debug:
        raise ValueError("debug must be False with loss='softmax', which decodes nothing, got True")
    if model.solver == "subgradient" and model.sampling != "permuted":
        raise ValueError(
            "sampling must be 'permuted' for solver='subgradient', whose certificate needs "
            f"whole passes, got {model.sampling!r}"
        )
    if model.model.constrained and model.solver != "extragradient":
        raise ValueError(
            f"{model.model!r} allows some weights only: solver must be 'extragradient', "
            f"got {model.solver!r}"
        )
    if model.radius is not None and model.solver != "extragradient":
        raise ValueError(f"radius needs solver='extragradient', got {model.solver!r}")


def check_loss(loss: str, solver: str) -> None:
    """Complain about a solver that the loss does not have."""
    if loss == "softmax" and solver != "bcfw":
        raise ValueError(f"solver must be 'bcfw' with loss='softmax', got {solver!r}")
