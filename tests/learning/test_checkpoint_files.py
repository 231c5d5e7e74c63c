"""Checkpoint files: what is no checkpoint is said so, a full disk costs no training."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_digits

from cornerstep import MulticlassSVC

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(return_X_y=True)
    return X[:400] / 16, y[:400]


@pytest.mark.parametrize("solver", ["block", "fw", "fw-corrective", "envelope"])
def test_files_that_are_no_checkpoints_are_said_so(tmp_path, digits, solver):
    """Whatever is in the place: one error that names the file."""
    X, y = digits[0][:60], digits[1][:60]
    path = tmp_path / "state.npz"

    def fit(iterations=3):
        return MulticlassSVC(solver=solver, C=0.1, max_iter=iterations, checkpoint=path).fit(X, y)

    fit()
    whole = path.read_bytes()
    with np.load(path) as file:
        arrays = dict(file)
    foreign = [{}, {"a": np.ones(3)}, {**arrays, "written_for": np.ones(3)},
               {**arrays, "written_for": np.array("[1]")}]  # fmt: skip
    needed = [name for name in arrays if name not in ("mu", "primal")]
    foreign += [{k: v for k, v in arrays.items() if k != name} for name in needed]
    foreign += [{**arrays, name: np.array(["a", "b"])} for name in arrays if name != "written_for"]
    contents = [b"", b"nonsense", whole[:50], whole[: len(whole) // 2], whole[:-30]]
    for content in [*foreign, *contents, np.ones(3)]:
        with path.open("wb") as file:
            if isinstance(content, dict):
                np.savez(file, **content)
            elif isinstance(content, bytes):
                file.write(content)
            else:
                np.save(file, content)
        with pytest.raises(ValueError, match=r"checkpoint \S*state\.npz"):
            fit()
    path.unlink()
    path.mkdir()
    with pytest.raises(ValueError, match=r"checkpoint \S*state\.npz is not a checkpoint file"):
        fit()


def test_a_full_disk_costs_the_checkpoint_not_the_training(tmp_path, digits, monkeypatch):
    X, y = digits
    path = tmp_path / "state.npz"
    MulticlassSVC(C=0.05, max_iter=1, random_state=0, checkpoint=path).fit(X, y)
    before = path.read_bytes()

    def full(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.warns(UserWarning, match=r"state\.npz cannot be written: No space left"):
        model = MulticlassSVC(C=0.05, random_state=0, checkpoint=path).fit(X, y)
    assert model.status_.value == "solved"
    assert path.read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == ["state.npz"]
