"""Checkpoints: runs that stop and go on, files that are refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_digits

from cornerstep import MulticlassSVC
from cornerstep.data import rows as streaming
from cornerstep.learning import checkpoints
from support.multiclass_problems import LINEAR_SOLVERS, draw, optimum

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(return_X_y=True)
    return X[:400] / 16, y[:400]


@pytest.mark.parametrize("solver", LINEAR_SOLVERS)
@pytest.mark.parametrize("smoothing", [0.0, 0.5])
def test_a_run_goes_on_where_it_stopped(tmp_path, solver, smoothing):
    problem, least = draw("weighted-usunier", smoothing), optimum("weighted-usunier", smoothing)
    path = tmp_path / "state.npz"
    options = {"solver": solver, "tol": 1e-9, "checkpoint": path}
    duals = []
    for _ in range(3):
        model = problem.fit(max_iter=8 if solver != "block" else 1, **options)
        duals.append(model.trace_["dual"])
        assert model.bound_ <= least + 1e-9
        assert model.objective_ >= least - 1e-9
    assert path.exists()
    assert [file.name for file in tmp_path.iterdir()] == ["state.npz"]  # nothing left beside it
    assert duals[1][0] >= 0.8 * duals[0][-1]
    if solver in ("fw", "fw-open-loop"):  # the iterates of one run
        whole = problem.fit(max_iter=24, solver=solver, tol=1e-9)
        assert np.allclose(model.trace_["value"], whole.trace_["value"][16:], rtol=1e-9)


@pytest.mark.parametrize("solver", ["auto", "block", "fw", "projected-gradient"])
def test_runs_with_a_kernel_go_on(tmp_path, digits, solver):
    X, y = digits[0][:60], digits[1][:60]
    options: dict[str, Any] = {"kernel": "rbf", "C": 30.0, "solver": solver, "smoothing": 0.0}
    for limit in (3, 2, 0):
        model = MulticlassSVC(
            tol=1e-12, max_iter=limit, checkpoint=tmp_path / "state.npz", **options
        ).fit(X, y)
        least = MulticlassSVC(tol=1e-6, **{**options, "solver": "auto"}).fit(X, y)
        assert model.bound_ <= least.objective_
        assert model.objective_ >= least.bound_ * (1 - 1e-12)


@pytest.mark.parametrize("solver", ["auto", "block", "fw"])
def test_streamed_runs_go_on(tmp_path, digits, solver, monkeypatch):
    X, y = digits
    np.save(tmp_path / "X.npy", X)
    path = tmp_path / "state.npz"
    options: dict[str, Any] = {
        "C": 0.05, "random_state": 0, "solver": solver, "checkpoint": path,
        "smoothing": 0 if solver == "fw" else "auto",
    }  # fmt: skip
    for rows in (2**14, 2**15):  # other blocks
        monkeypatch.setattr(streaming, "BLOCK_BYTES", rows)
        model = MulticlassSVC(tol=1e-9, max_iter=6, **options)
        model.fit(np.load(tmp_path / "X.npy", mmap_mode="r"), y)
        if rows == 2**14:
            before = model.bound_
    assert model.bound_ >= before
    assert model.trace_["dual"][0] == pytest.approx(before, rel=1e-9)


def test_written_now_and_then(tmp_path, digits, monkeypatch):
    monkeypatch.setattr(checkpoints, "_EVERY", 0.0)
    written: list[None] = []
    write = checkpoints.Checkpoint.write

    def noted(self):
        written.append(None)
        write(self)

    monkeypatch.setattr(checkpoints.Checkpoint, "write", noted)
    model = MulticlassSVC(C=0.05, solver="fw", max_iter=5, checkpoint=tmp_path / "state.npz")
    model.fit(*digits)
    assert len(written) == 7


@pytest.mark.parametrize("solver", LINEAR_SOLVERS)
def test_other_training_is_refused(tmp_path, digits, solver):
    X, y = digits
    path = tmp_path / "state.npz"
    options: dict[str, Any] = {"solver": solver, "max_iter": 3, "checkpoint": path}
    MulticlassSVC(**options).fit(X, y)
    other = "fw" if solver != "fw" else "block"
    changes: list[tuple[dict[str, Any], str]] = [
        ({"solver": other}, f"its solver is '{solver}', not '{other}'"),
        ({"loss": "top-k", "k": 3}, "its loss is"),
        ({"smoothing": 0.1}, "its smoothing is 0.5, not 0.1"),
        ({"C": 2.0}, "its training data is"),
        ({"intercept_scaling": 2.0}, "its training data is"),
    ]
    for change, message in changes:
        with pytest.raises(ValueError, match=message):
            MulticlassSVC(**options | change).fit(X, y)
    weights = np.ones(y.size)
    weights[3] = 2.0
    order = np.random.default_rng(0).permutation(y.size)
    for rows, labels, given in [
        (X[order], y[order], None), (X, np.roll(y, 1), None), (X, y, weights), (X + 1e-9, y, None),
    ]:  # fmt: skip
        with pytest.raises(ValueError, match="other training: its training data is"):
            MulticlassSVC(**options).fit(rows, labels, given)
    with pytest.raises(ValueError, match="its examples is 400, not 399"):
        MulticlassSVC(**options).fit(X[1:], y[1:])
    path.write_bytes(b"nonsense")
    with pytest.raises(ValueError, match="is not a checkpoint file"):
        MulticlassSVC(**options).fit(X, y)
    with pytest.raises(ValueError, match="in a folder that exists"):
        MulticlassSVC(checkpoint=tmp_path / "no" / "state.npz").fit(X, y)


@pytest.mark.parametrize("solver", ["auto", "block", "fw", "envelope"])
def test_other_rows_on_disk_are_refused(tmp_path, digits, solver):
    X, y = digits
    path, order = tmp_path / "state.npz", np.random.default_rng(0).permutation(y.size)

    def fit(rows, labels, **options):
        np.save(tmp_path / "X.npy", rows)
        smoothing = 0 if solver == "fw" else "auto"
        model = MulticlassSVC(
            solver=solver, smoothing=smoothing, max_iter=3, checkpoint=path, **options
        )
        return model.fit(np.load(tmp_path / "X.npy", mmap_mode="r"), labels)

    fit(X, y)
    with pytest.raises(ValueError, match="other training: its training data is"):
        fit(X[order], y[order])
    with pytest.raises(ValueError, match="its training data is"):
        fit(X, y, intercept_scaling=2.0)
    fit(X, y)
