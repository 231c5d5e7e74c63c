"""Every benchmark can be put together: its modules import what is there."""

from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def test_all_suites_load(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT))
    suites = pytest.importorskip("benchmarks.suites", reason="benchmarks come with the sources")
    for name in suites.NAMES:
        benchmark = suites.load(name)
        assert benchmark.datasets
        assert benchmark.baseline in {solver.name for solver in benchmark.solvers}
