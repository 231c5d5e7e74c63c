"""The parameters of the tagger: each checked, with one line that says what it may be."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any

import numpy as np

from cornerstep.learning.parameters import check_stopping
from cornerstep.structured.models.constraints import check_constraints
from cornerstep.structured.parameters import BLOCK_SOLVERS, LOSSES, check_loss
from cornerstep.structured.templates import expanded


def check_parameters(model: Any) -> None:
    """Say which parameter of the tagger is wrong, and what it may be."""
    check_stopping(model)
    if not isinstance(model.templates, list | tuple):
        raise ValueError(f"templates must be a list of templates, got {model.templates!r}")
    for template in model.templates:
        expanded(template)
    check_constraints(model.constraints)
    if not _is_count(model.min_count):
        raise ValueError(f"min_count must be an integer >= 1, got {model.min_count!r}")
    if model.hashing is not None and not (_is_count(model.hashing) and model.hashing < 2**31):
        raise ValueError(
            f"hashing must be None or a number of columns below 2**31, got {model.hashing!r}"
        )
    if model.hashing is not None and model.min_count != 1:
        raise ValueError(
            "min_count must be 1 with hashing, which does not tell names apart, "
            f"got {model.min_count!r}"
        )
    left_out = isinstance(model.lam, str) and model.lam == "auto"
    if not left_out and not (isinstance(model.lam, Real) and 0 < float(model.lam) < np.inf):
        raise ValueError(f"lam must be a positive number or 'auto', got {model.lam!r}")
    if model.solver not in BLOCK_SOLVERS:
        raise ValueError(f"solver must be one of {', '.join(BLOCK_SOLVERS)}, got {model.solver!r}")
    if model.loss not in LOSSES:
        raise ValueError(f"loss must be one of {', '.join(LOSSES)}, got {model.loss!r}")
    check_loss(model.loss, model.solver)
    if not isinstance(model.averaging, bool | np.bool_):
        raise ValueError(f"averaging must be True or False, got {model.averaging!r}")


def _is_count(value: Any) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool) and int(value) >= 1
