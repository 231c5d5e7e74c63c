"""Every benchmark runs from data to table and plot, on tiny data made on the spot."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from benchmarks.__main__ import main as command
from benchmarks.core import Answer, Benchmark, Dataset, Row, Settings, Solver
from benchmarks.fetch import ELSEWHERE, SOURCES, Source, fetch
from benchmarks.reproduce import ITEMS, reproduce
from benchmarks.smo import platt, smo
from benchmarks.suites import (
    frank_wolfe,
    fw_iteration,
    memory,
    minimize,
    network_losses,
    probe,
    table1,
)
from rich.console import Console

from benchmarks import data, kernel, runner, suites, table
from cornerstep.learning.kernel_blocks import InnerProductKernel

pytestmark = pytest.mark.filterwarnings("ignore")  # limits come before tolerances here
M, D = 8, 6  # classes, features


def blobs(rng, n, m=M, d=D):
    y = np.arange(n) % m
    return rng.standard_normal((m, d))[y] + 0.4 * rng.standard_normal((n, d)), y


def csr(X):
    columns = np.nonzero(np.ones_like(X))[1]
    return {
        "X_train_data": X.ravel(), "X_train_indices": columns,
        "X_train_indptr": np.arange(0, X.size + 1, X.shape[1]), "X_train_shape": X.shape,
    }  # fmt: skip


def signs(y):
    return np.where(y % 2, 1, -1)


def grids(rng, name, n=3):
    colours, labels = rng.integers(0, 255, (n, 2, 3, 2)), rng.integers(0, 11, (n, 2, 3))
    return {
        f"X_{name}_flat": colours.ravel(), f"X_{name}_shapes": np.tile([2, 3, 2], (n, 1)),
        f"Y_{name}_flat": labels.ravel(), f"Y_{name}_shapes": np.tile([2, 3], (n, 1)),
    }  # fmt: skip


def sentences(rng, name, n=16, length=5):
    size = n * length
    return {
        f"{name}_word": rng.integers(0, 9, size), f"{name}_pos": rng.integers(0, 4, size),
        f"{name}_chunk": rng.integers(0, 3, size),
        f"{name}_sent_ptr": np.arange(0, size + 1, length),
    }  # fmt: skip


@pytest.fixture(scope="module")
def data_folder(tmp_path_factory):
    """A file for each set that the benchmarks read."""
    folder = tmp_path_factory.mktemp("data")
    rng = np.random.default_rng(0)
    X, y = blobs(rng, 64)
    half = np.arange(64) % 2 == 0
    pixels = np.packbits(rng.integers(0, 2, (64, 784), dtype=np.uint8), axis=1)
    letters = np.packbits(rng.integers(0, 2, (40, 16), dtype=np.uint8), axis=1)
    tags = rng.integers(0, 2, (20, 3))
    files = {
        "usps": {"X_train": X, "y_train": y},
        "flowers102_mobilenetv2": {
            "X": X, "y": y, "train": np.arange(32), "val": np.arange(32, 64), "scale": 1.0,
        },
        "cub200_2011_mobilenetv2": {"X": X, "y": y, "is_train": half | True, "scale": 1.0},
        "caltech101_silhouettes_28": {"X": pixels, "n_features": 784, "y": y},
        "news20_bydate_counts": csr(np.abs(X)) | {"y_train": y},
        "a1a": csr(X) | {"y_train": signs(y)},
        "a9a": csr(X) | {"y_train": signs(y)},
        "ijcnn1": {"X_train": X, "y_train": signs(y)},
        "raetsch_thyroid": {"X": X, "y": signs(y)},
        "ocr_letters": {
            "X": letters, "n_features": 16, "y": rng.integers(0, 26, 40),
            "word_ptr": np.arange(0, 41, 4), "fold": np.arange(10) % 2,
        },
        "conll2000": {
            "chunk_tags": ["B-NP", "I-NP", "O"],
            **sentences(rng, "train"), **sentences(rng, "test"),
        },
        "scene": {"X_train": X[:20], "X_test": X[20:40], "Y_train": tags, "Y_test": tags},
        "snakes": grids(rng, "train") | grids(rng, "test"),
    }  # fmt: skip
    for name, arrays in files.items():
        np.savez(folder / f"{name}.npz", **arrays)
    return folder


def smaller(name, benchmark):
    """The benchmark with problems of the same names, but tiny."""
    builds: dict[str, Callable[[], Any]] = {
        "frank_wolfe": partial(frank_wolfe._problem, 20, 2, 1.0),
        "memory": partial(memory._problem, 30),
        "minimize": partial(minimize.dense_task, "simplex", 30, 12, True),
        "fw_iteration": partial(fw_iteration.random_problem, 40, D, M, np.float64),
        "mcsvm_table2": partial(fw_iteration.random_problem, 40, D, M),
        "mcsvm_table3": partial(fw_iteration.random_problem, 40, D, M),
        "network_losses": partial(network_losses._problem, 8, False),
        "probe": partial(probe.features, (200, 8, 8), "float32", "cpu"),
        "table1": partial(table1._problem, *table1._cube(3), 3, 2.0),
    }  # fmt: skip
    if name not in builds:
        return benchmark
    datasets = tuple(Dataset(dataset.name, builds[name]) for dataset in benchmark.datasets[:1])
    return replace(benchmark, datasets=datasets)


@pytest.mark.parametrize(
    "task",
    [
        *(minimize.dense_task(kind, 30, 12, True) for kind in ("simplex", "l1", "box")),
        pytest.param(minimize.nearest_task(4), marks=pytest.mark.slow),  # imports take seconds
        minimize.observed_task(8, rank=1, share=0.5),
    ],
    ids=["simplex", "l1", "box", "birkhoff", "nuclear"],
)
def test_peers_of_minimize_find_the_same_minimum_and_the_judge_sees_it(task, monkeypatch):
    monkeypatch.setattr(minimize, "SECONDS", 0.2)
    found = {}
    for solver in minimize.BENCHMARK.solvers:
        if solver.name != "fw" and solver.applies(task) and not solver.missing():
            found[solver.name] = minimize.judge(task, solver.prepare(task)(None).point)
    assert len(found) >= 3
    best = found["auto"]
    assert best["gap"] <= 1e-6
    assert best["violation"] <= 1e-9
    for name, measures in found.items():
        assert measures["violation"] <= 1e-2, name
        assert measures["f"] == pytest.approx(best["f"], rel=1e-2), name


#: The datasets that a benchmark is tried on, where it has several.
ONLY = {
    "busy": ("breast",), "cold": ("Reduced",), "q375": ("draw 0",), "multiclass": ("usps unit",),
    "losses_time": ("news20",), "network_losses": ("1,024 rows, float32",),
    "mcsvm_figures": ("Figure 2: flowers102",), "mcsvm_table1": ("cub200",),
    "kernel": ("ijcnn1 5,000, C", "a9a, nu"), "kernel_figures": ("wdbc",), "boosting": ("thyroid",),
    "boosting_table3": ("thyroid",), "boosting_figures": ("thyroid",),
    "boosting_rounds": ("thyroid, nu = 0.5",), "boosting_noise": ("thyroid, 10%",),
    "kernel_classes": ("8 x 8 digits, C",), "kernel_oneclass": ("20,000 x 2, nu = 0.01",),
    "kernel_regression": ("friedman, C = 1,",), "kernel_gpu": ("mnist 2,000",),
    "structured_solvers": ("ocr",), "structured_passes": ("12.5%", "100.0%"),
    "structured_sets": ("scene, edges=tree", "snakes"),
}  # fmt: skip
SLOW = {
    "import", "cold", "q375", "memory", "boosting_table3", "boosting_worst_case", "cluster",
    "streaming", "structured_solvers", "table1", "boosting_figures", "frank_wolfe", "minimize",
    "boosting", "boosting_rounds", "kernel_figures", "losses_time", "mcsvm_figures", "mcsvm_table1",
    "review_figures", "kernel_oneclass", "kernel_regression", "boosting_noise", "busy", "softmax",
    "network_losses",
}  # fmt: skip


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=pytest.mark.slow if n in SLOW else ()) for n in suites.NAMES]
)
def test_a_benchmark_runs_to_the_end(name, data_folder, tmp_path, monkeypatch, capsys):
    pytest.importorskip("matplotlib")
    monkeypatch.setenv("CORNERSTEP_DATA", str(data_folder))
    kernel.load.cache_clear()
    settings = Settings(
        ONLY.get(name, ()), limit=0.2, iterations=12, splits=2 if name == "boosting_table3" else 1
    )
    benchmark = smaller(name, suites.load(name, settings))
    assert benchmark.datasets
    rows = runner.measure(benchmark, 1, min(benchmark.repeat, 1), benchmark.paths)
    if name in ("gpu", "probe", "network_losses", "kernel_gpu") and not rows:
        assert capsys.readouterr().err.count("left out:") >= len(benchmark.datasets)
        pytest.skip("no GPU, or no torch: every problem says that it is left out")
    assert {row.dataset for row in rows} == {dataset.name for dataset in benchmark.datasets}
    for row in rows:
        assert row.measures, (row.solver, row.stopped)
    shown = StringIO()
    table.show(benchmark, rows, Console(file=shown, width=250))
    assert rows[0].solver in shown.getvalue()
    for file in runner.write(name, rows, tmp_path):
        assert file.stat().st_size > 0
    if benchmark.plot is not None:
        for file in benchmark.plot(rows, tmp_path):
            assert file.stat().st_size > 1_000


def test_every_suite_is_named():
    files = {path.stem for path in Path(suites.__file__).parent.glob("*.py")} - {"__init__"}
    assert files == set(suites._MODULES.values())


@pytest.fixture
def counted():
    """A benchmark of two datasets and two solvers, and which of them were run."""
    runs = []

    def solver(name):
        def prepare(problem):
            def run(recorder):
                runs.append((problem, name))
                if problem == "b" and name == "second" and len(runs) == 4:
                    raise RuntimeError("once")
                return Answer(1.0, 3)

            return run

        return Solver(name, prepare)

    datasets = tuple(Dataset(name, lambda name=name: name) for name in "ab")  # type: ignore[misc]
    solvers = (solver("first"), solver("second"))
    benchmark = Benchmark(
        "counted", "", datasets, solvers, lambda problem, x: {"x": x}, "first", repeat=1
    )
    return benchmark, runs


def test_a_run_goes_on_where_it_was_ended(counted, tmp_path, capsys):
    benchmark, runs = counted
    file, settings = tmp_path / "rows.jsonl", Settings(limit=1.0)
    first = runner.measure(benchmark, 1, 1, False, runner.Kept(file, settings))
    assert len(runs) == 4
    assert "once" in first[3].stopped
    with file.open("a") as half:
        half.write('{"dataset": "a", "sol')  # a run that was ended
    again = runner.measure(benchmark, 1, 1, False, runner.Kept(file, settings))
    assert runs[4:] == [("b", "second")]  # the failed one alone
    assert [row.dataset for row in again] == list("aabb")
    assert all(row.measures == {"x": 1.0} for row in again)
    runner.measure(benchmark, 1, 1, False, runner.Kept(file, Settings(only=("a",), limit=1.0)))
    assert len(runs) == 5
    runner.measure(benchmark, 1, 1, False, runner.Kept(file, Settings(limit=2.0)))
    assert len(runs) == 9  # other settings: anew
    assert "[4/4] b, second" in capsys.readouterr().err


@pytest.mark.slow
def test_a_quick_reproduction_has_every_item_and_is_not_run_again(
    data_folder, tmp_path, monkeypatch
):
    """In this process, which saves a start of Python an item."""
    pytest.importorskip("matplotlib")
    monkeypatch.setenv("CORNERSTEP_DATA", str(data_folder))
    kernel.load.cache_clear()

    def measured(name, threads, repeat, paths, settings, keep):
        benchmark = smaller(name, suites.load(name, settings))
        rows = runner.Kept(keep, settings)
        return runner.measure(benchmark, threads, repeat or benchmark.repeat, benchmark.paths, rows)

    shown = StringIO()
    console = Console(file=shown, width=250)
    entries = reproduce(True, folder=tmp_path, console=console, measured=measured)
    assert [entry["suite"] for entry in entries] == [item.suite for item in ITEMS]
    for entry in entries:
        assert entry["outcome"] == "done", entry
        assert all((tmp_path / file).stat().st_size > 0 for file in entry["files"])
    figures = {path.stem for path in (tmp_path / "figures").glob("*.png")}
    assert {f"boosting_figure{k}" for k in (1, 2, 3, 4)} < figures
    assert {"review_figure1", "review_figure2", "q375_iteration", "kernel_figures"} < figures
    assert {"mcsvm_figure1_iteration", "mcsvm_japanese_figure1"} < figures
    assert f"[{len(ITEMS)}/{len(ITEMS)}, " in shown.getvalue()
    before = {file: file.read_text() for file in tmp_path.glob("*.jsonl")}
    again = ("q375", "boosting", "mcsvm_table1")
    reproduce(True, again, folder=tmp_path, console=console, measured=measured)
    assert before == {file: file.read_text() for file in tmp_path.glob("*.jsonl")}


def test_jobs_measure_every_dataset_once_and_join_the_rows(tmp_path):
    asked = []

    def measured(name, threads, repeat, paths, settings, keep):
        kept = runner.Kept(keep, settings)
        datasets = suites.load(name, settings).datasets
        new = [d.name for d in datasets if (d.name, "fw", 1) not in kept.rows]
        asked.extend(new)
        for dataset in new:
            kept.add(Row(dataset, "fw", 1, measures={"rounds": 1.0}, seconds=[1.0]))
        return list(kept.rows.values())

    names, console = ("boosting_worst_case",), Console(file=StringIO(), width=250)
    for jobs in (3, 1, 2):  # what one way has measured the other knows
        entries = reproduce(
            names=names, folder=tmp_path, console=console, measured=measured, jobs=jobs
        )
        wanted = [d.name for d in suites.load(*names).datasets]
        assert len(wanted) > 1
        assert sorted(asked) == sorted(wanted)
        assert entries[0]["rows"] == len(wanted)


def test_the_whole_name_of_a_dataset_keeps_no_other():
    half = "caltech, half 1"
    some = suites.load("mcsvm_table1", Settings((half,), splits=12)).datasets
    assert [dataset.name for dataset in some] == [half]
    more = suites.load("mcsvm_table1", Settings(("caltech",), splits=12)).datasets
    assert len(more) == 12


def test_the_page_of_the_reproduction_names_every_item_and_shows_every_figure():
    page = Path(suites.__file__).parents[2] / "docs" / "reproduction.md"
    text = page.read_text(encoding="utf-8")
    for item in ITEMS:
        assert f"`reproduce {item.suite}`" in text or f"`reproduce {item.suite} " in text, (
            item.suite
        )
    pictures = {path.name for path in (page.parent / "reproduction").glob("*.png")}
    assert pictures
    assert all(f"](reproduction/{name})" in text for name in pictures)


def test_both_smo_end_at_the_same_optimum():
    rng = np.random.default_rng(0)
    X, y = blobs(rng, 60)
    labels = np.where(y < 4, 1.0, -1.0)
    gram = InnerProductKernel(X, "rbf", 0.3).block(np.arange(60), None)
    values = []
    for method in (smo, platt):
        kernel_of_it = InnerProductKernel(X, "rbf", 0.3)
        beta, steps, columns = method(
            kernel_of_it, labels, 2.0, 1e-6, 60.0, lambda step, seconds, count, b: None
        )
        assert steps > 0
        assert columns <= 60
        assert abs(beta.sum()) < 1e-9
        assert (labels * beta >= 0).all()
        assert (labels * beta <= 1).all()
        values.append(beta @ gram @ beta / 2 - labels @ beta / 2.0)
    assert values[0] == pytest.approx(values[1], rel=1e-6)


def source(X, y, **changed):
    total, squares = float(X.sum()), float((X.multiply(X) if sp.issparse(X) else X * X).sum())
    right = Source("some_file", lambda: (X, y), X.shape, len(np.unique(y)), total, squares)
    return right._replace(**changed)


@pytest.mark.parametrize("make", [np.asarray, sp.csr_matrix], ids=["dense", "sparse"])
def test_fetched_sets_are_kept_and_found_again(make, tmp_path):
    X, y = blobs(np.random.default_rng(0), 40)
    X = make(X.astype(np.float32))
    wanted = {"blobs": source(X, y)}
    [(name, outcome, is_there)] = fetch(tmp_path, sources=wanted)
    assert (name, outcome.split(",")[0], is_there) == ("blobs", "fetched", True)
    wanted["blobs"] = source(X, y, fetch=lambda: pytest.fail("fetched twice"))
    assert fetch(tmp_path, ("blobs",), wanted) == [
        ("blobs", "is there, and its sums are right", True)
    ]
    (tmp_path / "some_file.npz").write_bytes(b"PK damaged")
    [(_, outcome, is_there)] = fetch(tmp_path, sources=wanted)
    assert outcome.startswith("could not be fetched")
    assert not is_there


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"shape": (41, 6)}, "its shape is (40, 6) rather than (41, 6)"),
        ({"classes": 9}, "its number of classes is 8 rather than 9"),
        ({"total": 1e9}, "its sum is"),
        ({"squares": 1e9}, "its sum of squares is"),
    ],
    ids=["shape", "classes", "sum", "squares"],
)
def test_a_set_that_is_another_is_not_kept(changed, said, tmp_path):
    X, y = blobs(np.random.default_rng(0), 40)
    [(_, outcome, is_there)] = fetch(tmp_path, sources={"blobs": source(X, y, **changed)})
    assert said in outcome
    assert not is_there
    assert not any(tmp_path.iterdir())


def test_a_set_that_cannot_be_fetched_is_one_line_and_the_others_are_fetched(tmp_path):
    def fail():
        raise OSError("no network:\nname or service not known")

    X, y = blobs(np.random.default_rng(0), 40)
    wanted = {"away": source(X, y, fetch=fail, file="away"), "here": source(X, y)}
    first, second = fetch(tmp_path, sources=wanted)
    assert first[1] == "could not be fetched: no network: name or service not known"
    assert second[2]


def test_openml_answers_become_the_files_that_benchmarks_read(tmp_path, monkeypatch):
    X = np.random.default_rng(0).uniform(-1, 1, (9298, 256))
    labels = np.array([str(1 + i % 10) for i in range(9298)])
    asked = []

    def fetch_openml(name, **options):
        asked.append((name, options["version"]))
        return X, labels

    monkeypatch.setattr("sklearn.datasets.fetch_openml", fetch_openml)
    scaled = ((X[:7291] + 1) / 2).astype(np.float32)
    usps = source(scaled, np.arange(10), fetch=SOURCES["usps"].fetch, file="usps")
    assert fetch(tmp_path, sources={"usps": usps})[0][2]
    assert asked == [("USPS", 1)]
    monkeypatch.setenv("CORNERSTEP_DATA", str(tmp_path))
    data.load.cache_clear()
    found, y = data.load("usps", "unit")
    data.load.cache_clear()
    assert found.shape == (7291, 256)
    assert y.tolist()[:11] == [*range(10), 0]


def test_the_command_says_what_cannot_be_fetched(monkeypatch, capsys, tmp_path):
    monkeypatch.setenv("CORNERSTEP_DATA", str(tmp_path))
    monkeypatch.setattr(
        "benchmarks.__main__.fetch", lambda folder, names: [("usps", "gone", False)]
    )
    monkeypatch.setattr("sys.argv", ["benchmarks", "fetch"])
    with pytest.raises(SystemExit) as ended:
        command()
    said = capsys.readouterr().out.splitlines()
    assert ended.value.code == 1
    assert said[0] == "usps: gone"
    assert len(said) == 1 + len(ELSEWHERE)
    monkeypatch.setenv("CORNERSTEP_DATA", "")
    with pytest.raises(SystemExit):
        command()
    assert "set CORNERSTEP_DATA" in capsys.readouterr().err.splitlines()[-1]
