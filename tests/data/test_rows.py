"""Readers: rows cut where they end, files that change, and one line for any bytes."""

from __future__ import annotations

import io
import os
import random
from contextlib import redirect_stderr, redirect_stdout

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import dump_svmlight_file, load_iris

from cornerstep import MulticlassSVC
from cornerstep.cli.app import run
from cornerstep.data import rows as streaming
from cornerstep.data.rows import MappedRows, open_rows, whole_numbers

pa = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    monkeypatch.setattr(streaming, "BLOCK_BYTES", 2**10)


# -- rows are cut where they end -------------------------------------------------------------------


@pytest.mark.parametrize(
    "lists",
    [
        [[1, 2], [3], [4, 5, 6], [7, 8]], [[1, 2], None, [4, 5, 6, 9], [7, 8]], [[1, 2], None],
        [None, [1, 2]], [[1, 2], []], [[], [1, 2]], [[1, 2], [1, 2, 3]],
        [[1, 2]] * 300 + [[1], [1, 2, 3]],
    ],
)  # fmt: skip
@pytest.mark.parametrize("kind", [pa.list_, pa.large_list])
def test_lists_of_different_lengths_are_refused(tmp_path, lists, kind):
    column = pa.array(lists, kind(pa.float64()))
    table = pa.table({"x": column, "t": [k % 2 for k in range(len(lists))]})
    parquet.write_table(table, tmp_path / "a.parquet", row_group_size=3)
    with pytest.raises(ValueError, match=r"must all have one length|has no list"):
        list(open_rows(tmp_path / "a.parquet", target="t").blocks())


@pytest.mark.parametrize("seed", range(8))
def test_lists_and_chunks_of_any_kind_are_the_rows(tmp_path, seed):
    rng = np.random.default_rng(seed)
    n, d = int(rng.integers(1, 200)), int(rng.integers(1, 40))
    X = rng.standard_normal((n, d)).astype([np.float32, np.float64][seed % 2])
    kind = [
        lambda: pa.FixedSizeListArray.from_arrays(pa.array(X.ravel()), d),
        lambda: pa.array(X.tolist(), pa.list_(pa.from_numpy_dtype(X.dtype))),
        lambda: pa.array(X.tolist(), pa.large_list(pa.from_numpy_dtype(X.dtype))),
    ][seed % 3]
    parquet.write_table(pa.table({"x": kind()}), tmp_path / "a.parquet", row_group_size=7)
    rows = open_rows(tmp_path / "a.parquet")
    blocks = list(rows.blocks())
    assert [block.shape[0] for block in blocks] == np.diff(rows.starts).tolist()
    assert np.array_equal(np.concatenate(blocks), X)


@pytest.mark.parametrize("seed", range(10))
def test_svmlight_lines_of_any_length_are_read_once(tmp_path, monkeypatch, seed):
    rng = np.random.default_rng(seed)
    monkeypatch.setattr(streaming, "BLOCK_BYTES", int(rng.integers(4, 400)))
    n, d = int(rng.integers(1, 40)), int(rng.integers(1, 60))
    X = rng.standard_normal((n, d)) * (rng.random((n, d)) < rng.random((n, 1)) ** 2)
    X[0, 0] = 1.0
    y = rng.integers(0, 3, n)
    text = io.BytesIO()
    dump_svmlight_file(X, y, text, zero_based=bool(seed % 2))
    lines = text.getvalue().split(b"\n")[:-1]
    if seed % 3 == 0:
        lines[:: max(n // 3, 1)] = [line + b" # " + b"c" * 300 for line in lines[:: max(n // 3, 1)]]
    path = tmp_path / "a.svm"
    path.write_bytes(b"\n".join(lines) + (b"" if seed % 4 == 0 else b"\n"))
    rows = open_rows(path, n_features=d)
    assert rows.target is not None
    assert np.array_equal(rows.target, y)
    blocks = list(rows.blocks())
    assert [block.shape[0] for block in blocks] == np.diff(rows.starts).tolist()
    assert np.allclose(sp.vstack(blocks).toarray(), X)


def test_labels_that_are_too_large_for_integers_stay_as_they_are():
    assert whole_numbers(np.array([1.0, -2.0])).dtype == np.int64
    for large in ([1.0, 1e19], [2.0**53, 1.0], [0.5, 1.0], [np.inf, 1.0], [np.nan, 1.0]):
        assert np.array_equal(whole_numbers(np.array(large)), large, equal_nan=True)


# -- files that change ---------------------------------------------------------------------------


def write_data(folder, kind, X, y):
    path = folder / f"a.{kind}"
    if kind == "npy":
        np.save(path, X)
    elif kind == "svm":
        dump_svmlight_file(X, y, str(path), zero_based=False)
    else:
        columns = {f"x{j}": X[:, j] for j in range(X.shape[1])}
        parquet.write_table(pa.table(columns | {"t": y}), path, row_group_size=10)
    return path


@pytest.mark.parametrize("kind", ["npy", "svm", "parquet"])
@pytest.mark.parametrize("solver", ["auto", "envelope", "fw"])
def test_files_that_are_written_to_during_a_fit_are_noticed(tmp_path, monkeypatch, kind, solver):
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((60, 4)), np.arange(60) % 3
    path = write_data(tmp_path, kind, X, y)
    rows = open_rows(path, target="t" if kind == "parquet" else None)
    passes: list[None] = []
    read = streaming.Rows.blocks

    def blocks(self):
        passes.append(None)
        if len(passes) == 5:
            with path.open("r+b") as file:
                file.seek(-20, os.SEEK_END)
                file.write(b"0")
        return read(self)

    monkeypatch.setattr(streaming.Rows, "blocks", blocks)
    model = MulticlassSVC(solver=solver, tol=1e-9, max_iter=30)
    with pytest.raises(ValueError, match=r"must not change while it is in use, .*written to since"):
        model.fit(rows, y)


def test_what_was_read_before_a_change_is_not_mixed(tmp_path):
    """Also a change in the middle of a pass; a file that only lost its name is as it was."""
    X = np.random.default_rng(0).standard_normal((300, 4))
    path = write_data(tmp_path, "npy", X, None)
    rows = open_rows(path)
    assert len(list(rows.blocks())) > 2
    blocks = rows.blocks()
    next(blocks)
    os.utime(path)
    with pytest.raises(ValueError, match="must not change"):
        list(blocks)
    rows = open_rows(path)
    path.unlink()
    assert np.array_equal(np.concatenate(list(rows.blocks())), X)
    path = write_data(tmp_path, "svm", X, np.arange(300) % 2)
    rows = open_rows(path)
    path.rename(tmp_path / "b.svm")
    with pytest.raises(ValueError, match="must not change"):
        list(rows.blocks())


def test_maps_without_a_file_are_rows_too():
    class Map(np.memmap):
        pass

    X = np.arange(6.0).reshape(3, 2).view(Map)
    assert np.array_equal(np.concatenate(list(MappedRows(X).blocks())), np.asarray(X))


# -- files that are not what they should be --------------------------------------------------------


@pytest.mark.posix
def test_folders_of_files_that_do_not_fit(tmp_path):
    def put(name, **columns):
        parquet.write_table(pa.table(columns), tmp_path / name)

    put("a.parquet", x=pa.array([], pa.float64()), t=pa.array([], pa.int64()))
    put("b.parquet", x=[1.0, 2.0], t=[0, 1])
    rows = open_rows(tmp_path, target="t")
    assert np.array_equal(np.concatenate(list(rows.blocks())), [[1.0], [2.0]])
    put("c.parquet", x=pa.array([1.0], pa.float32()), t=[0])
    assert open_rows(tmp_path, target="t").dtype == np.float64
    for wrong, message in (
        ({"z": [1.0], "t": [0]}, "no column 'x'"), ({"x": [1.0]}, "no column 't'"),
        ({"x": ["a"], "t": [0]}, "must be numbers"), ({"x": [[1.0]], "t": [0]}, "must be numbers"),
        ({"x": [1.0], "t": [None]}, "has no label in row 0"),
    ):  # fmt: skip
        put("c.parquet", **wrong)
        with pytest.raises(ValueError, match=message):
            open_rows(tmp_path, target="t")
    (tmp_path / "c.parquet").unlink()
    os.mkfifo(tmp_path / "c.parquet")
    with pytest.raises(ValueError, match="is none"):
        open_rows(tmp_path, target="t")


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """The same data in every format, and a model of it."""
    folder = tmp_path_factory.mktemp("readers")
    X, y = load_iris(return_X_y=True)
    X, y = X[::5], y[::5]
    np.savez(folder / "a.npz", X=X, y=y)
    csr = sp.csr_array(X * (X > 2))
    np.savez(folder / "s.npz", data=csr.data, indices=csr.indices, indptr=csr.indptr,
             shape=np.array(csr.shape), y=y)  # fmt: skip
    np.save(folder / "a.npy", X)
    np.save(folder / "y.npy", y)
    for ending in ("csv", "svm", "parquet"):
        assert run(["convert", str(folder / "a.npz"), str(folder / f"a.{ending}")]) == 0
    assert run(["fit", str(folder / "a.npz"), "-q", "-o", str(folder / "model")]) == 0
    return folder


def said(*words):
    """Exit code and stderr of a command."""
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        code = run([str(word) for word in words])
    return code, err.getvalue()


HEADER = b"\x93NUMPY\x01\x00v\x00{'descr': '<f8', 'fortran_order': False, 'shape': (3, 4"


@pytest.mark.parametrize(
    ("name", "data", "options"),
    [
        ("e.npy", b"", "--target y.npy"), ("e.npz", b"", ""), ("e.svm", b"", ""),
        ("e.csv", b"", "--target t"), ("e.parquet", b"", "--target t"),
        ("a.svm", b"0 1:1 2147483648:2\n1 1:2\n", ""),
        ("a.svm", b"0 1:1 99999999999999999999:2\n1 1:2\n", ""),
        ("a.svm", b"0 1:1 2147483646:2\n1 1:2\n", ""),
        ("a.svm", b"0 1:1\n99999999999999999999999999 1:\n", ""),
        ("a.npy", HEADER, "--target y.npy"), ("a.npy", HEADER[:40], "--target y.npy"),
        ("a.npy", HEADER + b"), }" + b" " * 51 + b"\n", "--target y.npy"),
        ("a.csv", b"a,t\n1," + b"x" * 200_000 + b"\n", "--target t"),
        ("a.csv", b"a,t\n\x00,1\n", "--target t"), ("a.csv", b"\xff\xfe", "--target t"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("how", ["--stream", "--no-stream"])
def test_bad_bytes_are_said_in_one_line(files, tmp_path, monkeypatch, name, data, options, how):
    monkeypatch.chdir(files)
    (tmp_path / name).write_bytes(data)
    code, err = said("fit", tmp_path / name, "-q", how, *options.split())
    assert code == 2
    assert err.startswith("error: ")
    assert err.count("\n") == 1


def test_labels_beyond_integers_are_words(tmp_path):
    (tmp_path / "a.csv").write_text("a,t\n1,99999999999999999999999\n2,5\n")
    code, err = said("fit", tmp_path / "a.csv", "--target", "t", "-q")
    assert code == 0, err


@pytest.mark.parametrize("part", ["indices", "indptr", "shape", "data"])
def test_csr_matrices_that_reach_beyond_themselves_are_refused(files, tmp_path, part):
    """Compiled kernels do not look."""
    for change in (lambda a: a + 10**6, lambda a: a - 10**6, lambda a: a[:-1]):
        with np.load(files / "s.npz") as file:
            arrays = dict(file)
        if part == "data":
            arrays["data"] = arrays["data"][:-1]
        else:
            arrays[part] = change(arrays[part])
        np.savez(tmp_path / "b.npz", **arrays)
        code, err = said("predict", files / "model", tmp_path / "b.npz")
        assert code == 2, err


@pytest.mark.parametrize(
    "name", ["a.csv", "a.svm", "a.parquet", "a.npz", "s.npz", "a.npy", "y.npy"]
)
def test_no_traceback_on_any_bytes(files, tmp_path, monkeypatch, name):
    rng = random.Random(name)
    whole = (files / name).read_bytes()
    monkeypatch.chdir(files)
    data = tmp_path / name
    used = files / "a.npy" if name == "y.npy" else data
    labels = {"csv": "target", "parquet": "target", "npy": data if name == "y.npy" else "y.npy"}
    target = ["--target", labels[name[2:]]] if name[2:] in labels else []
    for _ in range(60):
        broken = bytearray(whole)
        for _ in range(rng.choice([1, 1, 3])):
            at = rng.randrange(len(broken))
            at = rng.choice([at, min(at, 100), max(len(broken) - 1 - at // 8, 0)])
            how = rng.randrange(4)
            if how == 0:
                broken[at] ^= 1 << rng.randrange(8)
            elif how == 1:
                broken[at : at + 4] = rng.choice([b"\xff" * 4, bytes(4), b"9999", b"\n::,"])
            elif how == 2:
                broken[at:at] = rng.choice([b"99999999999999999999", b"-1", b"nan", b":", b"\n"])
            else:
                del broken[at : at + rng.choice([1, 5, 10**6])]
            broken = broken or bytearray(b"x")
        data.write_bytes(bytes(broken))
        where = rng.choice(["--stream", "--no-stream"])
        code, err = said(*rng.choice([
            ("fit", used, "-q", "--max-iter", 2, *target, where), ("predict", "model", used, where),
            ("evaluate", "model", used, *target, where),
        ]))  # fmt: skip
        assert code in (0, 2, 3), err
        assert err.count("\n") == 1 or code in (0, 3), err


@pytest.mark.parametrize("seed", range(4))
def test_chosen_prepared_and_unpacked_rows_are_the_rows(tmp_path, monkeypatch, seed):
    rng = np.random.default_rng(seed)
    monkeypatch.setattr(streaming, "BLOCK_BYTES", int(rng.integers(8, 400)))
    data = rng.standard_normal((int(rng.integers(1, 60)), 3))
    np.save(tmp_path / "X.npy", data)
    rows = streaming.open_rows(tmp_path / "X.npy")
    chosen = np.sort(rng.permutation(len(data))[: int(rng.integers(1, len(data) + 1))])
    some = streaming.ChosenRows(rows, chosen)
    assert np.array_equal(some.held(), data[chosen])
    twice = streaming.PreparedRows(some, lambda block: 2 * block[:, :2], ["a", "b"])
    for found in (twice, streaming.unpacked(twice)):
        blocks = list(found.blocks())
        assert np.array_equal(np.concatenate(blocks), 2 * data[chosen, :2])
        assert found.shape == (chosen.size, 2)
        assert found.feature_names == ["a", "b"]
        assert np.array_equal(np.cumsum([0, *map(len, blocks)]), found.starts)


def test_without_room_rows_stay_where_they_are(tmp_path, monkeypatch):
    np.save(tmp_path / "X.npy", np.eye(3))
    rows = streaming.open_rows(tmp_path / "X.npy")

    def full():
        raise OSError("no space left")

    monkeypatch.setattr("tempfile.TemporaryFile", full)
    assert streaming.unpacked(rows) is rows
