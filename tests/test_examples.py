"""Every example of the gallery runs alone, prints a certificate and draws a picture."""

import ast
import runpy
from pathlib import Path

import pytest

plt = pytest.importorskip("matplotlib.pyplot")

EXAMPLES = sorted((Path(__file__).parent.parent / "examples").glob("*.py"))
SLOW = ("boosted_rules", "multi_label", "noisy_labels")  # several fits each, or peers on threads
PROVEN = ("No model has", "No ensemble of these", "no spread has less", "of the least possible one")


def marked(path):
    return pytest.param(path, id=path.stem, marks=[pytest.mark.slow] * (path.stem in SLOW))


@pytest.mark.parametrize("path", [marked(path) for path in EXAMPLES])
@pytest.mark.filterwarnings("ignore:FigureCanvasAgg is non-interactive")
def test_examples_run(path, tmp_path, monkeypatch, capsys):
    if path.stem == "dask_cluster":
        pytest.importorskip("distributed")
    monkeypatch.chdir(tmp_path)
    plt.switch_backend("Agg")
    runpy.run_path(str(path), run_name="__main__")
    assert plt.get_fignums()
    plt.close("all")
    said = capsys.readouterr().out
    assert any(words in said for words in PROVEN)
    assert not any(tmp_path.iterdir())


def test_there_are_a_dozen_that_say_what_they_teach():
    assert len(EXAMPLES) >= 12
    for path in EXAMPLES:
        assert "What to take from it" in " ".join(
            (ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or "").split()
        ), path
