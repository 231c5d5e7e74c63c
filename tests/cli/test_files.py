"""What commands write: whole or not at all, to whatever is there; and the codes they end with."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

import cornerstep
from cornerstep.cli import app
from cornerstep.cli.app import run
from cornerstep.structured import MatchingModel
from support.structured_problems import PROBLEMS

resource = pytest.importorskip("resource")
pytestmark = [
    pytest.mark.linux,
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("outputs")
    rng = np.random.default_rng(0)
    y = np.arange(900) % 3
    np.savez(place / "a.npz", X=rng.standard_normal((900, 8)) + y[:, None], y=y)
    np.savez(place / "other.npz", X=rng.standard_normal((900, 8)), y=y)
    assert run(["fit", str(place / "a.npz"), "-q", "--tol", "0.1", "-o", str(place / "model")]) == 0
    return place


@contextmanager
def full_disk(size=4096):
    """Files cannot grow beyond a few bytes, as on a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)


OUTPUTS = {
    "new.cornerstep": "fit a.npz -q --tol 0.1 -o",
    "report.html": "fit a.npz -q --tol 0.1 --report",
    "guesses.txt": "predict model a.npz --scores -o",
    "b.csv": "convert a.npz", "b.svm": "convert a.npz", "b.npz": "convert a.npz",
    "b.parquet": "convert a.npz", "model.onnx": "export model",
}  # fmt: skip


@pytest.mark.parametrize("name", OUTPUTS)
def test_a_full_disk_leaves_what_was_there(folder, tmp_path, monkeypatch, capsys, name):
    if name.endswith("parquet"):
        pytest.importorskip("pyarrow")
    if name.endswith("onnx"):
        pytest.importorskip("onnx")
    monkeypatch.chdir(folder)
    path = tmp_path / name
    for old in (b"old", None):
        path.write_bytes(old) if old else path.unlink()
        capsys.readouterr()
        with full_disk(4096 if name != "model.onnx" else 64):
            code = run([*OUTPUTS[name].split(), str(path)])
        assert code == 2
        shown = capsys.readouterr()
        assert shown.err == f"error: cannot write {path}: File too large\n"
        assert [entry.name for entry in tmp_path.iterdir()] == ([name] if old else [])
        assert old is None or path.read_bytes() == old
    assert run([*OUTPUTS[name].split(), str(path)]) == 0
    assert path.stat().st_size > 64


@pytest.mark.parametrize("name", OUTPUTS)
def test_modes_links_and_devices_stay(folder, tmp_path, monkeypatch, name):
    if name.endswith("parquet"):
        pytest.importorskip("pyarrow")
    if name.endswith("onnx"):
        pytest.importorskip("onnx")
    monkeypatch.chdir(folder)
    target, link, null = tmp_path / f"target-{name}", tmp_path / name, tmp_path / f"null-{name}"
    target.write_bytes(b"old")
    target.chmod(0o600)
    link.symlink_to(target)
    null.symlink_to("/dev/null")
    for path in (link, null):
        assert run([*OUTPUTS[name].split(), str(path)]) == 0
        assert path.is_symlink()
    assert target.stat().st_size > 64
    assert stat.S_IMODE(target.stat().st_mode) == 0o600
    assert stat.S_ISCHR(Path("/dev/null").stat().st_mode)


def typed(line, folder):
    """A line in a shell."""
    source = str(Path(cornerstep.__file__).parents[1])
    line = line.replace("CS", f"{sys.executable} -m cornerstep")
    return subprocess.run(
        ["bash", "-c", line], cwd=folder, capture_output=True, text=True, timeout=300,
        env=dict(os.environ, PYTHONPATH=source),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("line", "code", "error"),
    [
        ("CS predict model a.npz --scores | head -1; exit ${PIPESTATUS[0]}", 0, ""),
        ("CS certify model other.npz | true; exit ${PIPESTATUS[0]}", 1, ""),
        ("CS predict --help | true; exit ${PIPESTATUS[0]}", 0, ""),
        ("CS predict model a.npz > /dev/full", 2, "cannot write to stdout: No space left"),
        ("CS inspect model --json > /dev/full", 2, "cannot write to stdout: No space left"),
        ("CS certify model other.npz > /dev/full 2>&1", 2, ""),
        ("CS inspect model >&- 2>&-", 0, ""),
        ("CS fit a.npz --tol 0.1 -o seen 2>&1 | true; exit ${PIPESTATUS[0]}", 0, ""),
        ("CS fit a.npz --tol 0.1 -o seen 2> /dev/full > /dev/null && CS inspect seen", 0, ""),
        ("CS predict model a.npz -o /dev/stdout | wc -l | grep -qx 900", 0, ""),
    ],
)
def test_pipes_that_close_and_streams_that_are_full(folder, line, code, error):
    done = typed(line, folder)
    assert done.returncode == code, done.stderr
    assert done.stderr.count("\n") == (1 if error else 0)
    assert error in done.stderr


def test_a_crash_is_not_a_certificate_that_does_not_hold(folder, monkeypatch, capsys):
    def crash(*_, **__):
        raise RuntimeError("what nobody thought of")

    monkeypatch.setattr(cornerstep, "certify", crash)
    code = run(["certify", str(folder / "model"), str(folder / "a.npz")])
    assert code == 70
    err = capsys.readouterr().err
    assert "what nobody thought of" in err
    assert "a defect of cornerstep" in err
    documented = app.__doc__ is not None and cornerstep.cli.__doc__
    assert all(f"{number} " in documented for number in (0, 1, 2, 3, 70, 130))


def test_models_with_notes_and_structures_of_the_users_own(tmp_path, capsys):
    """Notes may be anything; a model without features or labels can be inspected."""
    model, X, y = next(p for p in PROBLEMS.values() if isinstance(p[0], MatchingModel))
    svm = cornerstep.StructuredSVC(model, max_iter=3, random_state=0).fit(X, y)
    notes = {"data": "mine", "features": 5, "target": [1], "holdout": "x", "seed": -1, "rows": None}
    cornerstep.save(svm, tmp_path / "model", notes=notes)
    assert run(["inspect", str(tmp_path / "model")]) == 0
    assert run(["inspect", str(tmp_path / "model"), "--json"]) == 0
    np.savez(tmp_path / "a.npz", X=np.ones((2, 3)), y=[0, 1])
    capsys.readouterr()
    assert run(["predict", str(tmp_path / "model"), str(tmp_path / "a.npz")]) == 2
    assert "structured models of chains only" in capsys.readouterr().err
