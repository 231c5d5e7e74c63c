"""Objectives that array code computes are no less than the truth, however little smoothing."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from attack.multiclass_task import Task

from cornerstep import MulticlassSVC

strict = pytest.importorskip("array_api_strict")
LOSSES: dict[str, dict[str, Any]] = {
    "max-hinge": {},
    "top-k": {"k": 2},
    "usunier": {"k": 2},
    "weighted-top-k": {"rho": [0.6, 0.3, 0.1]},
    "weighted-usunier": {"rho": [0.6, 0.3, 0.1]},
}


@pytest.mark.filterwarnings("ignore:MulticlassSVC stopped")
@pytest.mark.parametrize("smoothing", [1e-7, 1e-3])
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("solver", ["fw"])
def test_objectives_are_no_less_than_the_truth(solver: str, loss: str, smoothing: float) -> None:
    given = LOSSES[loss]
    for seed in range(2):
        rng = np.random.default_rng(seed)
        X, y = 3.0 * rng.standard_normal((12, 3)), np.arange(12) % 4
        model = MulticlassSVC(loss, smoothing=smoothing, solver=solver, max_iter=9, **given)
        model.fit(strict.asarray(X), strict.asarray(y))
        k = given.get("k", 1)
        rho = np.longdouble(given["rho"]) if "rho" in given else np.ones(k, np.longdouble) / k
        deltas = (np.arange(4) != y[:, None]).astype(np.longdouble)
        scales, rows = np.ones(12, np.longdouble), X.astype(np.longdouble)
        whole = loss.endswith("top-k") or loss == "max-hinge"
        task = Task(rows, y, scales, rho, whole, deltas, smoothing, 1.0)
        least, most = task.primal(np.asarray(model.coef_), np.asarray(model.intercept_))
        assert least <= model.objective_ * (1 + 1e-15)
        assert model.objective_ <= most * (1 + 1e-9)
