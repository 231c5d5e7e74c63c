"""Every benchmark runs from data to table and plot, on tiny data made on the spot."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from benchmarks.core import Dataset, Settings
from benchmarks.suites import frank_wolfe, fw_iteration, memory, table1
from rich.console import Console

from benchmarks import kernel, runner, suites, table

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
        "fw_iteration": partial(fw_iteration.random_problem, 40, D, M, np.float64),
        "mcsvm_table2": partial(fw_iteration.random_problem, 40, D, M),
        "table1": partial(table1._problem, *table1._cube(3), 3, 2.0),
    }  # fmt: skip
    if name not in builds:
        return benchmark
    datasets = tuple(Dataset(dataset.name, builds[name]) for dataset in benchmark.datasets[:1])
    return replace(benchmark, datasets=datasets)


#: The datasets that a benchmark is tried on, where it has several.
ONLY = {
    "busy": ("breast",), "q375": ("draw 0",), "multiclass": ("usps unit",),
    "losses_time": ("news20",),
    "mcsvm_figures": ("Figure 2: flowers102",), "mcsvm_table1": ("cub200",),
    "kernel": ("ijcnn1 5,000, C", "a9a, nu"), "kernel_figures": ("wdbc",), "boosting": ("thyroid",),
    "boosting_table3": ("thyroid",), "boosting_figures": ("thyroid",),
    "structured_solvers": ("ocr",), "structured_conll": ("12.5%", "100.0%"),
    "structured_sets": ("scene, edges=tree", "snakes"),
}  # fmt: skip
SLOW = {"import", "q375", "memory", "boosting_table3", "cluster"}


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=pytest.mark.slow if n in SLOW else ()) for n in suites.NAMES]
)
def test_a_benchmark_runs_to_the_end(name, data_folder, tmp_path, monkeypatch, capsys):
    pytest.importorskip("matplotlib")
    monkeypatch.setenv("CORNERSTEP_DATA", str(data_folder))
    kernel.load.cache_clear()
    settings = Settings(ONLY.get(name, ()), limit=0.2, iterations=12, splits=1)
    benchmark = smaller(name, suites.load(name, settings))
    assert benchmark.datasets
    rows = runner.measure(benchmark, 1, min(benchmark.repeat, 1), benchmark.paths)
    if name == "gpu" and not rows:
        assert capsys.readouterr().err.count("left out:") == len(benchmark.datasets)
        pytest.skip("no GPU: every problem says that it is left out")
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
