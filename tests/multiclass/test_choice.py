"""The choice of C: no model of a fine grid makes fewer errors than the bound says."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import load_breast_cancer, load_iris, make_classification
from sklearn.preprocessing import StandardScaler

from cornerstep import MulticlassSVC, ReducedHullSVC, Status, select_C


def halves(X: Any, y: Any) -> tuple[Any, Any, Any, Any]:
    return X[::2], y[::2], X[1::2], y[1::2]


def noisy(classes: int) -> tuple[Any, Any, Any, Any]:
    X, y = make_classification(
        300, 8, n_informative=5, n_classes=classes, flip_y=0.2, random_state=classes
    )
    return halves(X, np.array(["a", "b", "c", "d"])[y])


ESTIMATORS = [
    MulticlassSVC(smoothing=0, random_state=0),
    MulticlassSVC(random_state=0),
    MulticlassSVC(loss="softmax"),
    MulticlassSVC(loss="top-k", k=2, fit_intercept=False, random_state=0),
    MulticlassSVC(intercept_scaling=5.0, class_weight="balanced", random_state=0),
]


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=repr)
def test_no_model_makes_fewer_errors(estimator: Any) -> None:
    X, y, X_val, y_val = noisy(3)
    choice = select_C(estimator, X, y, X_val, y_val, (1e-3, 1.0), within=20, max_fits=40)
    grid = np.geomspace(1e-3, 1.0, 25)
    bound = choice.lower_bound(grid)
    assert bound.min() >= choice.least_errors > 0
    for C, least in zip(grid, bound, strict=True):
        model = MulticlassSVC(**{**estimator.get_params(), "C": C, "tol": 1e-7, "max_iter": 5000})
        errors = int((model.fit(X, y).predict(X_val) != y_val).sum())
        assert errors >= least
    assert (choice.estimator.predict(X_val) != y_val).sum() == choice.errors
    assert choice.errors == choice.to_pandas()["errors"].min()


@pytest.mark.parametrize("estimator", ESTIMATORS[:3], ids=repr)
@pytest.mark.parametrize("size", [1e-40, 1e40])
@pytest.mark.parametrize("C", [1e-10, 1e30])
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_what_float64_cannot_tell_proves_nothing(estimator: Any, size: float, C: float) -> None:
    X, y, X_val, y_val = noisy(3)
    interval = C / size**2, 10 * C / size**2
    choice = select_C(estimator, size * X, y, size * X_val, y_val, interval, within=0, max_fits=3)
    bounds = choice.lower_bound(choice.Cs)
    for model, bound in zip(choice.estimators, bounds, strict=True):
        assert model.relative_gap_ < 1e-3 or bound == 0
    assert choice.least_errors <= choice.errors


def test_two_classes_and_sparse_rows() -> None:
    X, y = load_breast_cancer(return_X_y=True)
    X, y, X_val, y_val = halves(StandardScaler().fit_transform(X), y)
    dense = select_C(MulticlassSVC(random_state=0), X, y, X_val, y_val, (1e-2, 10.0), within=4)
    assert dense.proven
    assert dense.least_errors >= dense.errors - 4
    sparse = select_C(
        MulticlassSVC(random_state=0), sp.csr_array(X), y, sp.csr_array(X_val), y_val,
        (1e-2, 10.0), within=4,
    )  # fmt: skip
    assert sparse.proven
    assert sparse.least_errors <= dense.errors
    assert "no C from 0.01 to 10 makes fewer" in str(dense)


def test_a_ball_contains_the_optimum_of_another_C() -> None:
    """What the bound rests on, at every C' from every C, also where models are far from optimal."""
    X, y, _, _ = noisy(4)
    optima = {
        C: MulticlassSVC(loss="softmax", C=C, tol=1e-9, fit_intercept=False).fit(X, y)
        for C in (0.01, 0.1, 1.0)
    }
    for C in (0.01, 0.1, 1.0):
        model = MulticlassSVC(loss="softmax", C=C, tol=1e-2, fit_intercept=False).fit(X, y)
        W, V = model.coef_, (model.dual_coef_.T @ X) / C
        losses = (model.objective_ - 0.5 * (W**2).sum()) / C
        linear = (model.bound_ + 0.5 * C**2 * (V**2).sum()) / C
        for other, optimum in optima.items():
            off = ((optimum.coef_ - 0.5 * (W + other * V)) ** 2).sum()
            radius = 0.25 * ((W + other * V) ** 2).sum() + other * (losses - linear)
            assert off <= radius * (1 + 1e-3)


def test_limits_and_interrupts_keep_what_is_proven() -> None:
    X, y, X_val, y_val = noisy(3)
    few = select_C(MulticlassSVC(random_state=0), X, y, X_val, y_val, within=0, max_fits=5)
    assert len(few.Cs) <= 5
    assert not few.proven
    assert few.least_errors <= few.errors
    one = select_C(MulticlassSVC(random_state=0), X, y, X_val, y_val, (0.1, 0.1), within=3)
    assert one.proven
    assert pytest.approx(0.1) == one.C
    assert few.estimators[0].status_ is Status.SOLVED


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"estimator": MulticlassSVC(kernel="rbf")}, "kernel='linear' and no feature_map"),
        ({"interval": (0.0, 1.0)}, "interval must be two numbers"),
        ({"interval": (2.0, 1.0)}, "interval must be two numbers"),
        ({"within": -1}, "within must be an integer >= 0"),
        ({"max_fits": 0}, "max_fits must be an integer >= 1"),
        ({"y_val": np.array([0, 1])}, "y_val must have a label for each row"),
        ({"y_val": np.full(75, 7)}, "y_val must have classes of the training data"),
    ],
)
def test_refusals(change: Any, message: str) -> None:
    X, y, X_val, y_val = halves(*load_iris(return_X_y=True))
    given = {
        "estimator": MulticlassSVC(random_state=0), "X": X, "y": y, "X_val": X_val, "y_val": y_val,
    }  # fmt: skip
    with pytest.raises(ValueError, match=message):
        select_C(**{**given, **change})
    with pytest.raises(TypeError, match="must be a MulticlassSVC"):
        select_C(ReducedHullSVC(), X, y, X_val, y_val)
