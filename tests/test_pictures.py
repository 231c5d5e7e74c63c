"""The benchmark page is what its data file says, and pictures follow the reader's colours."""

import csv
from dataclasses import asdict

import pytest

pytest.importorskip("matplotlib")

from pictures import benchmarks, style


def test_pages_show_the_figures_of_the_data_file():
    for path, text in benchmarks.pages(benchmarks.read()).items():
        assert path.read_text(encoding="utf-8") == text, "run python -m pictures --benchmarks-only"


def test_results_are_taken_into_the_data_file(tmp_path, monkeypatch):
    figures = tmp_path / "benchmarks.csv"
    figures.write_text(benchmarks.FIGURES.read_text())
    monkeypatch.setattr(benchmarks, "FIGURES", figures)
    before = {(f.benchmark, f.dataset, f.solver): f for f in benchmarks.read()}
    rows = [
        ("isolet std, C = 1", "cornerstep", "1", "0.12345", "True"),
        ("isolet std, C = 1", "cornerstep", "2", "0.1", "True"),
        ("isolet std, C = 1", "LIBLINEAR -s 4", "1", "20.0", "False"),
        ("new, C = 1", "cornerstep", "1", "0.5", "True"),
    ]
    with (tmp_path / "multiclass.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["dataset", "solver", "threads", "median_seconds", "solved"])
        writer.writerows(rows)
    after = {(f.benchmark, f.dataset, f.solver): f for f in benchmarks.take("multiclass", tmp_path)}
    changed = {key for key in after if after[key] != before.get(key)}
    assert changed == {
        ("multiclass", "isolet std, C = 1", "cornerstep"),
        ("multiclass", "isolet std, C = 1", "LIBLINEAR"),
        ("multiclass", "new, C = 1", "cornerstep"),
    }
    assert set(before) <= set(after)
    shown = benchmarks.table(benchmarks.SECTIONS[0], list(after.values()))
    assert "| isolet std, C = 1 | **0.12 s** | > 20 s | > 163x |" in shown
    with pytest.raises(ValueError, match="NAME must be one of multiclass"):
        benchmarks.take("nothing", tmp_path)


def test_every_section_is_drawn(tmp_path, monkeypatch):
    monkeypatch.setattr(style.save, "__defaults__", (tmp_path,))
    for section in benchmarks.SECTIONS:
        svg = benchmarks.plot(section, benchmarks.read()).read_text(encoding="utf-8")
        assert "prefers-color-scheme:dark" in svg
        assert "var(--ink)" in svg
        assert all(stand_in not in svg for stand_in, _, _ in style._COLOURS.values())


def test_figures_have_one_line_each():
    keys = [tuple(asdict(f).values())[:3] for f in benchmarks.read()]
    assert len(keys) == len(set(keys))
