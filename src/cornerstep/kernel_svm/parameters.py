"""The parameters of kernel machines: each checked, with one line that says what it may be."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any

import numpy as np

from cornerstep.kernel_svm.training import SOLVERS
from cornerstep.learning.kernel_functions import KERNELS
from cornerstep.learning.parameters import check_stopping


def check_parameters(model: Any) -> None:
    """Say which parameter of the estimator is wrong, and what it may be."""
    given = {name: getattr(model, name) for name in ("nu", "K", "C")}
    given = {name: value for name, value in given.items() if value is not None}
    if len(given) > 1:
        said = ", ".join(f"{name}={value!r}" for name, value in given.items())
        raise ValueError(f"only one of nu, K and C may be given, got {said}")
    for name, value in given.items():
        if not (isinstance(value, Real) and 0 < float(value) < np.inf):
            raise ValueError(f"{name} must be a positive number, got {value!r}")
    if model.nu is not None and model.nu > 1:
        raise ValueError(f"nu must be in (0, 1], got {model.nu!r}")
    check_machine(model)
    shape = model.decision_function_shape
    if shape not in ("ovr", "ovo"):
        raise ValueError(f"decision_function_shape must be 'ovr' or 'ovo', got {shape!r}")
    if not isinstance(model.break_ties, bool | np.bool_):
        raise ValueError(f"break_ties must be True or False, got {model.break_ties!r}")
    if model.break_ties and shape == "ovo":
        raise ValueError("break_ties must be False when decision_function_shape is 'ovo'")
    if model.solver not in SOLVERS:
        raise ValueError(f"solver must be one of {', '.join(SOLVERS)}, got {model.solver!r}")
    s = model.cardinality
    if s is not None and not (isinstance(s, Integral) and float(s) >= 1):
        raise ValueError(f"cardinality must be None or an integer >= 1, got {s!r}")
    if s is not None and not model.solver.endswith("-schedule"):
        raise ValueError(
            "cardinality needs solver='di-away-schedule' or 'di-pairwise-schedule', "
            f"got {model.solver!r}"
        )


def check_machine(model: Any) -> None:
    """Say which of the parameters that all estimators of the package have is wrong."""
    check_stopping(model)
    if not (isinstance(model.max_iter, Integral) and float(model.max_iter) >= -1):
        raise ValueError(f"max_iter must be an integer >= 0, or -1, got {model.max_iter!r}")
    if not (isinstance(model.cache_size, Real) and float(model.cache_size) > 0):
        raise ValueError(f"cache_size must be a positive number, got {model.cache_size!r}")
    if not (isinstance(model.degree, Integral) and float(model.degree) >= 0):
        raise ValueError(f"degree must be an integer >= 0, got {model.degree!r}")
    if not (isinstance(model.coef0, Real) and np.isfinite(float(model.coef0))):
        raise ValueError(f"coef0 must be a finite number, got {model.coef0!r}")
    if not callable(model.kernel) and model.kernel not in KERNELS:
        raise ValueError(
            f"kernel must be one of {', '.join(KERNELS)} or a function, got {model.kernel!r}"
        )


def check_one_class(model: Any) -> None:
    """Say which parameter of a ``OneClassHull`` is wrong."""
    _check_share(model.nu)
    check_machine(model)


def _check_share(nu: Any) -> None:
    if not (isinstance(nu, Real) and 0 < float(nu) <= 1):
        raise ValueError(f"nu must be a number in (0, 1], got {nu!r}")


def check_regression(model: Any) -> None:
    """Say which parameter of a ``ReducedHullSVR`` is wrong."""
    if model.epsilon is not None and model.nu is not None:
        said = f"epsilon={model.epsilon!r}, nu={model.nu!r}"
        raise ValueError(f"only one of epsilon and nu may be given, got {said}")
    if not (isinstance(model.C, Real) and 0 < float(model.C) < np.inf):
        raise ValueError(f"C must be a positive number, got {model.C!r}")
    width = model.epsilon
    if width is not None and not (isinstance(width, Real) and 0 <= float(width) < np.inf):
        raise ValueError(f"epsilon must be a number >= 0 or None, got {width!r}")
    if model.nu is not None:
        _check_share(model.nu)
    check_machine(model)
