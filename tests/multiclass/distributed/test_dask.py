"""A cluster of two processes: the iterates of one machine, certificates, lost workers."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import load_digits

from cornerstep import MulticlassSVC
from cornerstep.losses import make_loss
from cornerstep.multiclass.distributed import dask_executor as clustered
from cornerstep.multiclass.distributed.solvers import SpreadAscent
from cornerstep.multiclass.solvers.batch import BatchDescent
from support.clusters import chunked, cluster, computed, kill_a_worker, quiet
from support.multiclass_problems import draw, optimum

distributed = pytest.importorskip("distributed")
da = pytest.importorskip("dask.array")
pytestmark = quiet


@pytest.fixture(scope="module")
def client():
    with cluster() as client:
        yield client


@pytest.fixture
def doomed():
    """A cluster of one's own, to lose a worker of."""
    with cluster() as client:
        yield client


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(return_X_y=True)
    return X[:600] / 16, y[:600]


PLAIN = [
    ("fw", 0.0, 250), ("fw", 0.5, (1, 300, 99, 200)), ("fw-open-loop", 0.0, (50, 550)),
    ("projected-gradient", 0.5, 300), ("fw-corrective", 0.0, 211), ("envelope", 0.0, 211),
    ("envelope", 0.5, (100, 500)),
]  # fmt: skip


@pytest.mark.parametrize(("solver", "smoothing", "chunks"), PLAIN)
def test_iterates_are_those_of_one_machine(client, digits, solver, smoothing, chunks):
    X, y = digits
    weight = np.random.default_rng(0).integers(0, 3, y.size)
    options: dict[str, Any] = {"C": 0.1, "solver": solver, "smoothing": smoothing, "max_iter": 12}
    here = MulticlassSVC("usunier", k=3, class_weight="balanced", **options).fit(X, y, weight)
    model = MulticlassSVC("usunier", k=3, class_weight="balanced", **options)
    model.fit(chunked(X, chunks), chunked(y, chunks), weight)
    assert np.allclose(model.coef_, here.coef_, rtol=0, atol=1e-9 * np.abs(here.coef_).max())
    for column in ("value", "dual", "gap", "step"):
        assert np.allclose(model.trace_[column], here.trace_[column], rtol=1e-9, equal_nan=True)
    assert model.objective_ == pytest.approx(here.objective_, rel=1e-9)
    assert model.bound_ == pytest.approx(here.bound_, rel=1e-9)
    if here.dual_coef_ is None or solver == "projected-gradient":  # whose last pass was not best
        assert model.dual_coef_ is None
    else:
        np.testing.assert_allclose(model.dual_coef_.toarray(), here.dual_coef_.toarray(), atol=1e-9)
    moved = np.diff(model.trace_["bytes_moved"])
    image = 10 * 65 * 8
    assert (moved >= 2 * image).all()
    assert (moved <= 6 * image).all()


@pytest.mark.parametrize(
    ("kind", "smoothing"), [("weighted-top-k", 0.5), ("cost-sensitive, per example", 0.0)]
)
def test_block_rounds_reach_the_optimum(client, kind, smoothing):
    problem, least = draw(kind, smoothing), optimum(kind, smoothing)
    model = problem.estimator(tol=1e-2, max_iter=200)
    model.fit(chunked(problem.X, 4), chunked(problem.y, 4), problem.weight)
    assert model.status_.value == "solved"
    assert model.bound_ <= least + 1e-9 * abs(least)
    assert least - 1e-9 * abs(least) <= model.objective_ <= least * (1 + 1.1e-2)
    assert model.objective_ == pytest.approx(problem.primal(model.coef_), rel=1e-10)
    assert model.bound_ == pytest.approx(problem.dual(model.dual_coef_), rel=1e-9)


@pytest.mark.parametrize("solver", ["auto", "envelope"])
def test_dual_coefficients_are_brought_together(client, monkeypatch, solver):
    problem = draw("weighted-usunier")
    tol = 1e-5 if solver == "auto" else 1e-2  # so far that the first has corrections
    model = problem.estimator(tol=tol, max_iter=300, solver=solver)
    data = chunked(problem.X, 4), chunked(problem.y, 4), problem.weight
    model.fit(*data)
    assert solver == "envelope" or "corrective" in model.trace_["kind"]
    assert sp.issparse(model.dual_coef_)
    assert model.bound_ == pytest.approx(problem.dual(model.dual_coef_), rel=1e-9)
    monkeypatch.setattr(clustered, "_GATHERED", 100)
    assert model.set_params(max_iter=3).fit(*data).dual_coef_ is None  # too many for one machine


def test_parquet_and_predictions(client, digits, tmp_path):
    from cornerstep import dask as on_cluster

    pa, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    X, y = digits
    words = np.array([f"digit {k}" for k in range(10)])[y]
    for k, part in enumerate([slice(0, 250), slice(250, 600)]):
        columns = {f"x{j}": X[part, j] for j in range(64)} | {"label": words[part]}
        parquet.write_table(pa.table(columns), tmp_path / f"{k}.parquet", row_group_size=150)
    model = MulticlassSVC(C=0.01, tol=0.01, random_state=0)
    on_cluster.fit(model, str(tmp_path), target="label")
    here = MulticlassSVC(C=0.01, random_state=0).fit(X, words)
    assert model.status_.value == "solved"
    assert model.objective_ == pytest.approx(here.objective_, rel=0.01)
    lazy = chunked(X, 200)
    assert (computed(model.predict(lazy)) == model.predict(X)).all()
    assert np.allclose(computed(model.decision_function(lazy)), model.decision_function(X))
    assert model.predict_top_k(lazy, 3).shape == (600, 3)
    assert model.score(lazy, chunked(words, 200)) == model.score(X, words)
    two = MulticlassSVC(C=0.01, tol=0.03, random_state=0).fit(lazy, y > 4)
    assert np.allclose(computed(two.decision_function(lazy)), two.decision_function(X))
    assert computed(two.predict(lazy)).dtype == bool


@pytest.mark.parametrize("classes", [2, 10])
def test_softmax_and_its_probabilities(client, digits, classes):
    X, y = digits
    y = y % classes
    lazy = chunked(X, 200)
    model = MulticlassSVC(C=0.01, loss="softmax").fit(lazy, chunked(y, 200))
    here = MulticlassSVC(C=0.01, loss="softmax").fit(X, y)
    assert model.bound_ <= here.objective_
    assert here.bound_ <= model.objective_
    shares = model.predict_proba(lazy)
    assert isinstance(shares, da.Array)
    assert shares.shape == (600, classes)
    assert np.allclose(computed(shares), model.predict_proba(X), rtol=0, atol=1e-12)


def test_sparse_chunks(client, digits):
    X, y = digits
    options: dict[str, Any] = {"C": 0.1, "solver": "fw", "max_iter": 8}
    here = MulticlassSVC(**options).fit(sp.csr_matrix(X), y)
    lazy = chunked(X, 200).map_blocks(sp.csr_matrix)
    model = MulticlassSVC(**options).fit(lazy, y)
    assert np.allclose(model.coef_, here.coef_, atol=1e-9)
    assert model.bound_ == pytest.approx(here.bound_, rel=1e-9)
    assert (computed(model.predict(lazy)) == here.predict(X)).all()


@pytest.mark.parametrize(
    ("solver", "smoothing"),
    [pytest.param("fw", 0.0, marks=pytest.mark.slow), ("fw", 0.5), ("block", 0.0)],
)
def test_a_killed_worker_costs_time_not_the_result(doomed, digits, monkeypatch, solver, smoothing):
    X, y = digits
    options: dict[str, Any] = {"C": 0.02, "smoothing": smoothing, "random_state": 0}
    best = MulticlassSVC(tol=1e-5, **options).fit(X, y)
    kind = SpreadAscent if solver == "block" else BatchDescent
    looks = kill_a_worker(doomed, kind, monkeypatch, at=3)
    model = MulticlassSVC(solver=solver, tol=0.01, max_iter=40, **options)
    model.fit(chunked(X, 150), chunked(y, 150))
    assert len(looks) > 3
    assert best.bound_ <= model.objective_ * (1 + 1e-12)
    assert model.bound_ <= best.objective_ * (1 + 1e-12)
    if solver == "block":
        assert model.relative_gap_ < 0.05
    elif not smoothing:  # no dual points were lost: the iterates of one machine
        here = MulticlassSVC(solver="fw", tol=0.01, max_iter=40, **options).fit(X, y)
        assert np.allclose(model.coef_, here.coef_, atol=1e-9)
    # the certificate is of the final model
    scores = X @ model.coef_.T + model.intercept_
    square = (model.coef_**2).sum() + (model.intercept_**2).sum()
    loss = make_loss("max-hinge")
    losses = loss.envelope(scores, y, smoothing) if smoothing else loss.value(scores, y)
    assert model.objective_ == pytest.approx(0.5 * square + 0.02 * losses.sum(), rel=1e-10)


def test_lost_dual_points_come_back_from_the_checkpoint(doomed, digits, monkeypatch, tmp_path):
    X, y = digits
    monkeypatch.setattr("cornerstep.learning.checkpoints._EVERY", 0.0)
    kill_a_worker(doomed, SpreadAscent, monkeypatch, at=3)
    path = tmp_path / "state.npz"
    model = MulticlassSVC(C=0.01, tol=0.01, random_state=0, checkpoint=path)
    model.fit(chunked(X, 150), chunked(y, 150))
    assert model.status_.value == "solved"
    dual = model.trace_["dual"]
    assert (np.diff(dual) >= -1e-9 * dual.max()).all()
    # another cluster, other chunks, or one machine: they all go on from it
    for data in [(chunked(X, 222), chunked(y, 222)), (X, y)]:
        again = MulticlassSVC(C=0.01, tol=0.01, random_state=0, checkpoint=path).fit(*data)
        assert again.n_iter_ <= 3
        assert again.objective_ == pytest.approx(model.objective_, rel=0.01)


def test_structured_oracles_on_the_workers(client):
    import dask.bag as db

    from cornerstep import StructuredSVC
    from cornerstep.structured import ChainModel

    rng = np.random.default_rng(0)
    Y = [rng.integers(3, size=rng.integers(2, 7)) for _ in range(40)]
    X = [np.eye(3)[y] + rng.standard_normal((y.size, 3)) for y in Y]
    options: dict[str, Any] = {"solver": "fw", "max_iter": 15, "tol": 0.0, "C": 1.0}
    here = StructuredSVC(ChainModel(), **options).fit(X, Y)
    bags = [db.from_sequence(part, npartitions=3) for part in (X, Y)]
    model = StructuredSVC(ChainModel(), **options).fit(*bags)
    assert np.allclose(model.coef_, here.coef_, atol=1e-9)
    assert model.objective_ == pytest.approx(here.objective_, rel=1e-9)
    assert model.bound_ == pytest.approx(here.bound_, rel=1e-9)
    assert model.n_oracle_calls_ == here.n_oracle_calls_
    weights = rng.integers(0, 3, size=40)
    weights[14:28] = 0  # a partition that has none
    here = StructuredSVC(ChainModel(), **options).fit(X, Y, weights)
    for given in (weights, db.from_sequence(weights.tolist(), npartitions=2)):
        model = StructuredSVC(ChainModel(), **options).fit(bags[0], bags[1], given)
        assert np.allclose(model.coef_, here.coef_, atol=1e-9)
        assert model.objective_ == pytest.approx(here.objective_, rel=1e-9)
        assert model.bound_ == pytest.approx(here.bound_, rel=1e-9)
    with pytest.raises(ValueError, match="solver must be 'fw'"):
        StructuredSVC(ChainModel()).fit(*bags)


def test_clear_errors(client, digits):
    X, y = digits
    with pytest.raises(ValueError, match="kernel must be 'linear' for Dask arrays, got 'rbf'"):
        MulticlassSVC(kernel="rbf").fit(chunked(X, 300), y)
    with pytest.raises(ValueError, match="y must have shape"):
        MulticlassSVC().fit(chunked(X, 300), y[1:])
    with pytest.raises(ValueError, match="at least two classes"):
        MulticlassSVC().fit(chunked(X, 300), 0 * y)
    with pytest.raises(ValueError, match="X must be finite"):
        MulticlassSVC().fit(chunked(np.where(X > 0.9, np.nan, X), 300), y)
    with pytest.raises(ValueError, match="sample_weight must be >= 0"):
        MulticlassSVC().fit(chunked(X, 300), y, -np.ones(y.size))


def test_progress_shows_rounds_bytes_and_gap(client, digits, capsys):
    X, y = digits
    MulticlassSVC(C=0.01, tol=0.1, verbose=2, random_state=0).fit(chunked(X, 300), chunked(y, 300))
    shown = capsys.readouterr().err
    assert "round" in shown
    assert "kB moved" in shown


def test_without_dask_one_line_says_what_to_install():
    code = """
        import sys
        sys.modules["dask"] = sys.modules["distributed"] = None  # as if they were not there
        import cornerstep, cornerstep.dask
        try:
            cornerstep.dask.fit(cornerstep.MulticlassSVC(), "rows.parquet", target="y")
        except ImportError as problem:
            print(problem)
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "training on a cluster needs Dask: pip install cornerstep[dask]"


def test_without_a_client():
    code = """
        import dask.array as da, numpy as np
        from cornerstep import MulticlassSVC
        try:
            MulticlassSVC().fit(da.zeros((4, 2)), np.array([0, 1, 0, 1]))
        except ValueError as problem:
            print(problem)
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == (
        "Dask collections need a cluster: make a distributed.Client before fit"
    )


def test_every_chunk_is_checked_as_one_machine_checks_the_whole(client, digits):
    X, y = digits
    data, labels = chunked(X[:60], 20), chunked(y[:60], 20)
    for value, message in [(-3.0, "sample_weight must be >= 0"), (np.nan, "sample_weight must be")]:
        weights = np.ones(60)
        weights[45] = value
        with pytest.raises(ValueError, match=message):
            MulticlassSVC().fit(data, labels, sample_weight=weights)
    with pytest.raises(ValueError, match="must be positive for some example"):
        MulticlassSVC().fit(data, labels, sample_weight=np.zeros(60))
    broken = X[:60].copy()
    broken[45, 3] = np.inf
    with pytest.raises(ValueError, match="X must be finite"):
        MulticlassSVC().fit(chunked(broken, 20), labels)
    for wrong in ((lambda part: part[:-1]), (lambda part: part[:, :-1])):
        with pytest.raises(ValueError, match="X must have chunks of the shapes that it declares"):
            MulticlassSVC().fit(data.map_blocks(wrong, chunks=data.chunks), labels)


@pytest.mark.parametrize("chunks", [(0, 60), (20, 0, 40), (0, 0, 60, 0)])
@pytest.mark.parametrize("solver", ["auto", "fw", "envelope"])
def test_chunks_without_rows(client, digits, solver, chunks):
    X, y = digits[0][:60], digits[1][:60]
    options: dict[str, Any] = {
        "solver": solver,
        "tol": 0.05,
        "random_state": 0,
        "C": 0.01,
        "max_iter": 300,
    }
    given = tuple(count or 5 for count in chunks)  # what is filtered out leaves empty chunks
    kept = np.repeat(np.array(chunks) > 0, given)
    padded = np.zeros((kept.size, X.shape[1]))
    padded[kept] = X
    data = da.from_array(padded, chunks=(given, X.shape[1]))[da.from_array(kept, chunks=(given,))]
    assert data.compute_chunk_sizes().chunks[0] == chunks
    model = MulticlassSVC(**options).fit(data, y)
    best = MulticlassSVC(C=0.01, tol=1e-6, random_state=0).fit(X, y)
    assert model.bound_ <= best.objective_
    assert best.bound_ <= model.objective_
