"""Rows on disk: readers, and fits that equal those in memory."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import dump_svmlight_file, load_digits, load_iris
from sklearn.exceptions import ConvergenceWarning

from cornerstep import MulticlassSVC
from cornerstep.data import rows as streaming
from cornerstep.streaming import MappedRows, open_rows
from support.multiclass_problems import LOSS_KINDS, draw, optimum

pa = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")
PLAIN = ("fw", "fw-open-loop", "projected-gradient")
early = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    monkeypatch.setattr(streaming, "BLOCK_BYTES", 2**16)


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(return_X_y=True)
    return X[:600] / 16, y[:600]


def mapped(folder, X, mode="r"):
    path = folder / "X.npy"
    np.save(path, X)
    return np.load(path, mmap_mode=mode)


def table(folder, X, y, row_group_size=77, name="rows.parquet"):
    columns = {f"x{j}": X[:, j] for j in range(X.shape[1])} | {"label": y}
    parquet.write_table(pa.table(columns), folder / name, row_group_size=row_group_size)
    return folder / name


def svmlight(folder, X, y, **options):
    path = folder / "rows.svm"
    dump_svmlight_file(X, y, str(path), **options)
    return path


def together(rows):
    """All blocks as one array, after a check of their bounds."""
    blocks = list(rows.blocks())
    assert [block.shape[0] for block in blocks] == np.diff(rows.starts).tolist()
    assert len(blocks) > 1
    if rows.sparse:
        return sp.vstack(blocks).toarray()
    return np.concatenate(blocks)


# -- readers ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int64, np.uint8])
def test_mapped_rows(tmp_path, digits, dtype):
    X = (16 * digits[0]).astype(dtype)
    rows = MappedRows(mapped(tmp_path, X))
    assert rows.dtype == (np.float32 if dtype == np.float32 else np.float64)
    assert np.array_equal(together(rows), X)
    assert np.array_equal(together(open_rows(tmp_path / "X.npy")), X)
    assert "600 rows, 64 features" in repr(rows)


@pytest.mark.parametrize("mode", ["r", "r+", "c"])
def test_pages_that_were_written_to_stay(tmp_path, digits, mode):
    X = mapped(tmp_path, digits[0], mode)
    if mode != "r":
        X[:] = 7.0
    assert np.array_equal(together(MappedRows(X)), np.array(X))
    assert mode == "r" or (np.array(X) == 7.0).all()


@pytest.mark.parametrize("order", ["C", "F"])
def test_part_of_a_mapped_array(tmp_path, digits, order):
    X = mapped(tmp_path, np.asarray(digits[0], order=order))[100:550, 3:40]
    assert np.array_equal(together(MappedRows(X)), digits[0][100:550, 3:40])


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_parquet_rows(tmp_path, digits, dtype):
    X, y = digits[0].astype(dtype), digits[1]
    rows = open_rows(table(tmp_path, X, y), target="label")
    assert rows.dtype == dtype
    assert np.array_equal(together(rows), X)
    assert np.array_equal(together(rows), X)  # a second time
    assert rows.target is not None
    assert np.array_equal(rows.target, y)
    assert rows.feature_names == [f"x{j}" for j in range(64)]
    some = open_rows(tmp_path / "rows.parquet", target="label", features=["x5", "x3"])
    assert np.array_equal(np.concatenate(list(some.blocks())), X[:, [5, 3]])


def test_parquet_folder_of_lists(tmp_path, digits):
    X, y = digits
    words = np.array(["zero", "one"])[y % 2]
    for k, part in enumerate([slice(0, 250), slice(250, 600)]):
        lists = pa.FixedSizeListArray.from_arrays(pa.array(X[part].ravel()), 64)
        content = pa.table({"features": lists, "label": words[part]})
        parquet.write_table(content, tmp_path / f"part-{k}.parquet", row_group_size=99)
    rows = open_rows(tmp_path, target="label")
    assert np.array_equal(together(rows), X)
    assert rows.target is not None
    assert np.array_equal(rows.target, words)


@pytest.mark.parametrize("zero_based", [True, False])
def test_svmlight_rows(tmp_path, digits, zero_based):
    X, y = digits[0] * (digits[0] > 0.4), digits[1]
    X[0, 0] = 1.0
    path = svmlight(tmp_path, X, y, zero_based=zero_based)
    rows = open_rows(path, n_features=64)
    assert np.allclose(together(rows), X)
    assert rows.target is not None
    assert np.array_equal(rows.target, y)
    assert rows.target.dtype.kind == "i"
    wide = open_rows(path, n_features=70)
    assert wide.shape == (600, 70)


def test_what_cannot_be_opened(tmp_path, digits):
    X, y = digits
    table(tmp_path, X, y)
    np.save(tmp_path / "X.npy", X)
    parquet.write_table(pa.table({"a": ["x"], "label": [1]}), tmp_path / "words.parquet")
    (tmp_path / "empty").mkdir()
    (tmp_path / "rows.json").write_text("{}")
    (tmp_path / "bad.svm").write_text("hello world\n")
    svmlight(tmp_path, X, y, zero_based=False)
    refused: list[tuple[str, dict[str, Any], str]] = [
        ("empty", {"target": "label"}, "the folder"),
        ("nothing.npy", {}, "there is no"),
        ("rows.parquet", {"target": "labels"}, "no column 'labels'; it has x0"),
        ("rows.json", {}, r"path must end in \.npy"),
        ("X.npy", {"target": "label"}, "for Parquet files"),
        ("words.parquet", {"target": "label"}, "must be numbers"),
        ("bad.svm", {}, "is not an svmlight file"),
        ("rows.svm", {"n_features": 10}, "n_features must be at least 64"),
    ]
    for name, options, message in refused:
        with pytest.raises(ValueError, match=message):
            open_rows(tmp_path / name, **options)


# -- fits ------------------------------------------------------------------------------------------


@early
@pytest.mark.parametrize("solver", PLAIN)
@pytest.mark.parametrize("smoothing", [0.0, 0.5])
def test_plain_methods_have_the_iterates_of_memory(tmp_path, digits, solver, smoothing):
    X, y = digits
    weight = np.random.default_rng(0).integers(0, 3, y.size)
    model = MulticlassSVC("top-k", k=3, solver=solver, smoothing=smoothing, C=0.1, max_iter=15)
    model.fit(np.array(X), y, weight)
    expected = model.coef_, model.trace_["value"], model.trace_["dual"], model.bound_
    dual = model.dual_coef_
    model.fit(mapped(tmp_path, X), y, weight)
    if model.dual_coef_ is not None:
        assert np.allclose(model.dual_coef_.toarray(), dual.toarray(), rtol=0, atol=1e-11)
    assert (model.dual_coef_ is not None) == (solver == "fw" and smoothing > 0)
    for mine, theirs in zip(
        (model.coef_, model.trace_["value"], model.trace_["dual"], model.bound_),
        expected,
        strict=True,
    ):
        assert np.allclose(mine, theirs, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("kind", LOSS_KINDS)
@pytest.mark.parametrize("smoothing", [0.0, 0.5])
def test_block_rounds_reach_the_optimum(tmp_path, monkeypatch, kind, smoothing):
    monkeypatch.setattr(streaming, "BLOCK_BYTES", 4 * 8 * 5)  # 5 rows, or 4
    problem, least = draw(kind, smoothing), optimum(kind, smoothing)
    model = problem.estimator(tol=1e-4, max_iter=3000, solver="block")
    model.fit(mapped(tmp_path, problem.X), problem.y, problem.weight)
    assert model.status_.value == "solved"
    assert model.bound_ <= least + 1e-9 * abs(least)
    assert least - 1e-9 * abs(least) <= model.objective_ <= least * (1 + 1.1e-4)
    assert model.objective_ == pytest.approx(problem.primal(model.coef_), rel=1e-10)
    assert model.bound_ == pytest.approx(problem.dual(model.dual_coef_), rel=1e-10)


@pytest.mark.parametrize("smoothing", [0.0, 0.5])
@pytest.mark.parametrize("kind", LOSS_KINDS)
def test_the_default_reaches_the_optimum(tmp_path, monkeypatch, kind, smoothing):
    monkeypatch.setattr(streaming, "BLOCK_BYTES", 4 * 8 * 5)
    problem, least = draw(kind, smoothing), optimum(kind, smoothing)
    model = problem.estimator(tol=1e-5, max_iter=3000)
    model.fit(mapped(tmp_path, problem.X), problem.y, problem.weight)
    assert model.status_.value == "solved"
    assert model.bound_ <= least + 1e-9 * abs(least)
    assert least - 1e-9 * abs(least) <= model.objective_ <= least * (1 + 1.1e-5)
    assert model.objective_ == pytest.approx(problem.primal(model.coef_), rel=1e-10)
    # of block rounds, or of those and the dual points that another method found: with smoothing a
    # mixture of them, which proves a little more than the mean of what they do
    assert model.bound_ <= problem.dual(model.dual_coef_) * (1 + 1e-9)
    if not smoothing:
        assert model.bound_ == pytest.approx(problem.dual(model.dual_coef_), rel=1e-9)


@early
@pytest.mark.parametrize(("smoothing", "later"), [(0.0, "fw-corrective"), (0.5, "envelope")])
def test_slow_rounds_give_way_and_go_on_from_a_checkpoint(tmp_path, smoothing, later):
    rng = np.random.default_rng(0)
    X = 3.0 + rng.standard_normal((300, 6)) * [1, 1, 5, 5, 20, 20]
    y = (X @ rng.standard_normal((6, 4)) + rng.standard_normal((300, 4))).argmax(axis=1)
    rows, path = mapped(tmp_path, X), tmp_path / "state.npz"
    options: dict[str, Any] = {"C": 10.0, "smoothing": smoothing, "random_state": 0, "tol": 1e-6}
    here = MulticlassSVC(**options).fit(X, y)
    found = [
        MulticlassSVC(**options, checkpoint=path, max_iter=max_iter).fit(rows, y)
        for max_iter in (40, 20, 2000)
    ]
    assert later in found[0].trace_["kind"]
    assert found[0].bound_ <= found[1].trace_["dual"][0] * (1 + 1e-9)
    for model in found:
        assert model.bound_ <= here.objective_
        assert here.bound_ <= model.objective_
    assert found[2].objective_ == pytest.approx(here.objective_, rel=1e-4)


@pytest.mark.parametrize("kind", ["mapped", "parquet", "svmlight"])
def test_every_kind_of_file_gives_the_same_model(tmp_path, digits, kind):
    X, y = digits
    options: dict[str, Any] = {"C": 0.02, "tol": 1e-3, "random_state": 0}
    here = MulticlassSVC(**options).fit(X, y)
    labels = None
    if kind == "mapped":
        rows, labels = mapped(tmp_path, X), y
    elif kind == "parquet":
        rows = open_rows(table(tmp_path, X, y), target="label")
    else:
        rows = open_rows(svmlight(tmp_path, X, y, zero_based=False), n_features=64)
    model = MulticlassSVC(**options).fit(rows, labels)
    assert model.status_.value == "solved"
    assert model.objective_ == pytest.approx(here.objective_, rel=1e-3)
    assert model.bound_ <= here.objective_
    assert here.bound_ <= model.objective_
    assert model.coef_.shape == (10, 64)
    assert model.n_features_in_ == 64
    scores = X @ model.coef_.T + model.intercept_
    assert np.allclose(model.decision_function(rows), scores)
    assert (model.predict(rows) == scores.argmax(axis=1)).all()
    assert model.score(rows, labels) == (scores.argmax(axis=1) == y).mean() > 0.9
    assert model.top_k_score(rows, labels, 3) > 0.95
    assert list(getattr(model, "feature_names_in_", [])) == (
        rows.feature_names if kind == "parquet" else []
    )


@early
@pytest.mark.parametrize("solver", [*PLAIN, "fw-corrective", "envelope"])
def test_plain_methods_on_rounded_rows(tmp_path, digits, solver):
    X, y = digits[0].astype(np.float32), digits[1]
    options: dict[str, Any] = {"C": 0.05, "smoothing": 0}
    best = MulticlassSVC(**options, tol=1e-6, random_state=0).fit(X, y)
    model = MulticlassSVC(**options, solver=solver, max_iter=40).fit(mapped(tmp_path, X), y)
    assert model.bound_ <= best.objective_
    assert model.objective_ >= best.bound_


def test_certificate_of_rounded_rows(tmp_path, digits):
    X, y = digits[0].astype(np.float32), digits[1]
    options: dict[str, Any] = {"C": 0.05, "smoothing": 0, "fit_intercept": False}
    model = MulticlassSVC(**options, tol=1e-2, solver="block", random_state=0)
    model.fit(mapped(tmp_path, X), y)
    A = model.dual_coef_.toarray()
    W = A.T @ X.astype(float)
    D = A[np.arange(y.size), y].sum() - 0.5 * (W**2).sum()
    assert D * (1 - 1e-11) <= model.bound_ <= D * (1 + 1e-15)
    scores = X.astype(float) @ model.coef_.T
    margins = scores - scores[np.arange(y.size), y][:, None] + (np.arange(10) != y[:, None])
    P = 0.5 * (model.coef_**2).sum() + 0.05 * margins.max(axis=1).sum()
    assert P * (1 - 1e-15) <= model.objective_ <= P * (1 + 1e-11)


def test_what_needs_all_rows_in_memory(tmp_path, digits):
    X, y = digits
    rows = open_rows(table(tmp_path, X, y))
    with pytest.raises(ValueError, match="y must be given"):
        MulticlassSVC().fit(rows)
    with pytest.raises(ValueError, match="kernel must be 'linear' for rows on disk, got 'rbf'"):
        MulticlassSVC(kernel="rbf").fit(rows, y)
    with pytest.raises(ValueError, match="warm_start must be False"):
        MulticlassSVC(warm_start=True).fit(rows, y)
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        MulticlassSVC().fit(rows, y[1:])
    bad = mapped(tmp_path, np.where(np.arange(64) == 3, np.nan, X))
    with pytest.raises(ValueError, match="X must be finite, got NaN or infinity in rows 0 to"):
        MulticlassSVC().fit(bad, y)


def test_limits_keep_the_model(tmp_path, digits):
    X, y = digits
    with pytest.warns(ConvergenceWarning):
        model = MulticlassSVC(tol=0.0, max_iter=3).fit(mapped(tmp_path, X), y)
    assert model.status_.value == "iteration limit"
    assert 0 < model.bound_ < model.objective_
    assert len(model.trace_) == 4


MEMORY = """
import resource, sys
import numpy as np
from cornerstep import MulticlassSVC
from cornerstep.data import rows as streaming

streaming.BLOCK_BYTES = 2**22
X, y = np.load(sys.argv[1], mmap_mode="r"), np.load(sys.argv[2])
options = {"C": 1e-3, "tol": 0.05, "solver": sys.argv[3], "max_iter": 5}
MulticlassSVC(**options).fit(X[:300], y[:300])  # compiles
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
model = MulticlassSVC(**options).fit(X, y)
grown = 1024 * (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
print(grown, X.nbytes, model.bound_, model.objective_)
"""


@pytest.mark.linux
@pytest.mark.parametrize("solver", ["auto", pytest.param("fw", marks=pytest.mark.slow)])
def test_resident_memory_is_a_fraction_of_the_data(tmp_path, solver):
    rng = np.random.default_rng(0)
    n, d = 60_000, 500
    y = rng.integers(5, size=n)
    X = np.lib.format.open_memmap(tmp_path / "X.npy", "w+", np.float32, (n, d))
    X[:] = rng.standard_normal((1000, d), dtype=np.float32)[rng.integers(1000, size=n)]
    X[np.arange(n), y] += 3
    X.flush()
    np.save(tmp_path / "y.npy", y)
    words = [sys.executable, "-W", "ignore", "-c", MEMORY, "X.npy", "y.npy", solver]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=True)
    grown, size, dual, value = map(float, done.stdout.split())
    assert size == 4 * n * d
    assert grown < size / 2
    assert 0 < dual <= value


@pytest.mark.parametrize("solver", ["envelope", "auto"])
def test_squares_beyond_float64_are_one_clear_error(tmp_path, solver):
    X, y = load_iris(return_X_y=True)
    np.save(tmp_path / "X.npy", 1e156 * X)
    with pytest.raises(ValueError, match=r"X .*(too large|squares sum to less)"):
        MulticlassSVC(solver=solver, C=0.1).fit(open_rows(tmp_path / "X.npy"), y)
