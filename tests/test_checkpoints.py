"""Checkpoints: runs that stop and go on, files that are refused."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_digits

from cornerstep import MulticlassSVC, checkpoints, streaming
from multiclass_problems import LINEAR_SOLVERS, draw, optimum

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
        assert model.dual_objective_ <= least + 1e-9
        assert model.objective_ >= least - 1e-9
    assert path.exists()
    assert [file.name for file in tmp_path.iterdir()] == ["state.npz"]  # nothing left beside it
    assert duals[1][0] >= 0.8 * duals[0][-1]
    if solver in ("fw", "fw-open-loop"):  # the iterates of one run
        whole = problem.fit(max_iter=24, solver=solver, tol=1e-9)
        assert np.allclose(model.trace_["value"], whole.trace_["value"][16:], rtol=1e-9)


@pytest.mark.parametrize("solver", ["auto", "block", "fw"])
def test_streamed_runs_go_on(tmp_path, digits, solver, monkeypatch):
    X, y = digits
    np.save(tmp_path / "X.npy", X)
    path = tmp_path / "state.npz"
    options = {"C": 0.05, "random_state": 0, "solver": solver, "checkpoint": path}
    for rows in (2**14, 2**15):  # other blocks
        monkeypatch.setattr(streaming, "BLOCK_BYTES", rows)
        model = MulticlassSVC(tol=1e-9, max_iter=6, **options)
        model.fit(np.load(tmp_path / "X.npy", mmap_mode="r"), y)
        if rows == 2**14:
            before = model.dual_objective_
    assert model.dual_objective_ >= before
    assert model.trace_["dual"][0] == pytest.approx(before, rel=1e-9)


def test_written_now_and_then(tmp_path, digits, monkeypatch):
    monkeypatch.setattr(checkpoints, "_EVERY", 0.0)
    written = []
    write = checkpoints.Checkpoint.write
    monkeypatch.setattr(
        checkpoints.Checkpoint, "write", lambda self: (written.append(None), write(self))
    )
    model = MulticlassSVC(C=0.05, solver="fw", max_iter=5, checkpoint=tmp_path / "state.npz")
    model.fit(*digits)
    assert len(written) == 7


def test_other_training_is_refused(tmp_path, digits):
    X, y = digits
    path = tmp_path / "state.npz"
    MulticlassSVC(solver="fw", max_iter=3, checkpoint=path).fit(X, y)
    for change, message in [
        ({"solver": "block"}, "its state is 'image', not 'dual blocks'"),
        ({"loss": "top-k", "k": 3}, "its loss is"),
        ({"smoothing": 0.1}, "its smoothing is 0.0, not 0.1"),
        ({"C": 2.0}, "other data, costs or weights"),
    ]:
        with pytest.raises(ValueError, match=message):
            MulticlassSVC(**{"solver": "fw", "checkpoint": path} | change).fit(X, y)
    with pytest.raises(ValueError, match="its examples is 400, not 399"):
        MulticlassSVC(solver="fw", checkpoint=path).fit(X[1:], y[1:])
    with pytest.raises(ValueError, match="other data"):
        MulticlassSVC(solver="fw", checkpoint=path).fit(X[::-1] + 0.01, y)
    path.write_bytes(b"nonsense")
    with pytest.raises(ValueError, match="is not a checkpoint file"):
        MulticlassSVC(solver="fw", checkpoint=path).fit(X, y)
    with pytest.raises(ValueError, match="in a folder that exists"):
        MulticlassSVC(checkpoint=tmp_path / "no" / "state.npz").fit(X, y)


def test_dual_blocks_of_other_data_are_only_a_start(tmp_path, digits):
    """The certificate comes from the data, whatever the file says."""
    X, y = digits
    path = tmp_path / "state.npz"
    MulticlassSVC(C=0.05, random_state=0, checkpoint=path).fit(X, y)
    other = X[::-1] + 0.01
    model = MulticlassSVC(C=0.1, random_state=0, checkpoint=path).fit(other, y)
    best = MulticlassSVC(C=0.1, tol=1e-6, random_state=0).fit(other, y)
    assert model.dual_objective_ <= best.objective_
    assert best.dual_objective_ <= model.objective_ <= best.objective_ * 1.0011
