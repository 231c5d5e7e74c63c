"""Every block of the README and the documentation runs when pasted; every public name is there."""

import doctest
import importlib.util
import inspect
import os
import pkgutil
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

import cornerstep

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("**/*.md"))]
BLOCK = re.compile(r"^( *)```python\n(.*?)^\1```$", re.MULTILINE | re.DOTALL)
DOORS = (
    "dask", "domains", "losses", "objectives", "optimiser", "saddle", "streaming", "structured",
    "torch",
)  # fmt: skip
MISSING = {name for name in ("torch",) if importlib.util.find_spec(name) is None}
PROTOCOL = ("estimator", "claims", "specs")
MODULES = [
    name
    for _, name, _ in pkgutil.walk_packages(cornerstep.__path__, "cornerstep.")
    if not name.endswith("__main__")
]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_python_blocks_run_alone(page, tmp_path, monkeypatch):
    """Each as a reader pastes it: without what the blocks before it imported or made."""
    plt = pytest.importorskip("matplotlib.pyplot")
    plt.switch_backend("Agg")
    for block in BLOCK.finditer(page.read_text(encoding="utf-8")):
        code = textwrap.dedent(block[2])
        for optional in ("torch", "distributed", "sklearn.callback"):
            if f"import {optional}" in code or f"from {optional}" in code:
                pytest.importorskip(optional)
        folder = tmp_path / str(block.start())
        folder.mkdir()
        monkeypatch.chdir(folder)
        exec(compile(code, str(page), "exec"), {"__name__": "__docs__"})
    plt.close("all")


@pytest.mark.slow
@pytest.mark.posix
@pytest.mark.parametrize("page", ["README.md", "docs/start.md"])
def test_commands_of_a_page_run_alone(page, tmp_path):
    text = (ROOT / page).read_text(encoding="utf-8")
    block = re.search(r"^    python -c .*\n(?:    cornerstep .*\n)+", text, re.MULTILINE)
    assert block is not None
    script = (
        'set -e; python() { "$PYTHON" "$@"; }; cornerstep() { "$PYTHON" -m cornerstep "$@"; }\n'
    )
    subprocess.run(
        ["bash", "-c", script + textwrap.dedent(block[0])], cwd=tmp_path, check=True,
        env=dict(os.environ, PYTHON=sys.executable), capture_output=True,
    )  # fmt: skip
    assert (tmp_path / "answers.txt").read_text().split()[:5] == ["0", "1", "2", "3", "4"]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_links_between_pages_resolve(page):
    for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
        assert (page.parent / target).exists(), target


@pytest.mark.slow
def test_the_site_builds_without_warnings_and_shows_what_examples_say(tmp_path):
    for module in ("sphinx", "furo", "latex2mathml", "myst_parser", "numpydoc", "sphinx_gallery"):
        pytest.importorskip(module)
    site, trees = tmp_path / "site", tmp_path / "trees"
    done = subprocess.run(
        [sys.executable, "-m", "sphinx", "-W", "-q", "-d", str(trees), "docs", str(site)],
        cwd=ROOT, capture_output=True, text=True, timeout=900,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr

    def read(page):
        return (site / page).read_text(encoding="utf-8")

    assert "clf.status_ = solved" in read("start.html")
    assert "data:image/svg+xml" in read("reports.html")
    assert "reference/generated/cornerstep.MulticlassSVC.html#cornerstep" in read("choose.html")
    assert "<math" in read("mathematics.html")
    assert "<math" in read("reference/generated/cornerstep.MulticlassSVC.html")
    reference = "".join(read(page.relative_to(site)) for page in site.glob("reference/**/*.html"))
    for name in listed():
        assert f'id="{name}"' in reference
    for page in site.rglob("*.html"):
        text = page.read_text(encoding="utf-8")
        for target in re.findall(r'(?:src|srcset)="([^":?]+)"', text):
            assert (page.parent / target).exists(), (page, target)
        assert not re.search(r'<(?:script|img)[^>]*src="(?:https?:)?//', text), page


def listed():
    """The names on the reference page."""
    text = (ROOT / "docs/reference/index.md").read_text(encoding="utf-8")
    return re.findall(r"^(?:   |\.\. py:data:: )(cornerstep\.[\w.]+)$", text, re.MULTILINE)


def public():
    """(module, name) of every public name: what docs/versions.md says is one."""
    for module in ("", *(f".{name}" for name in DOORS if name not in MISSING)):
        for name in importlib.import_module(f"cornerstep{module}").__all__:
            yield f"cornerstep{module}", name
    for module in PROTOCOL:
        full = f"cornerstep.learning.{module}"
        for name, value in vars(importlib.import_module(full)).items():
            if not name.startswith("_") and getattr(value, "__module__", None) == full:
                yield full, name


def test_every_public_name_is_on_the_reference():
    there = {}
    for name in listed():
        module, _, last = name.rpartition(".")
        if module.rpartition(".")[2] in MISSING:
            continue
        there[name] = getattr(importlib.import_module(module), last)
    assert len({name.lower() for name in there}) == len(there) - 1  # Certificate and certificate
    for module, name in public():
        value = getattr(importlib.import_module(module), name)
        assert any(value is known for known in there.values()), f"{module}.{name}"


def test_the_doors_are_those_that_the_page_of_versions_names():
    page = " ".join((ROOT / "docs/versions.md").read_text(encoding="utf-8").split())
    named = page.partition("What can be imported".lower())[2].partition("under a name")[0]
    assert set(re.findall(r"[`.](\w+)`", named)) == {*DOORS, "cornerstep"}
    assert all(f"`learning.{module}`" in page for module in PROTOCOL)


def test_summaries_are_in_words():
    """What an editor shows of a name: a sentence, and formulas below or behind it."""
    for module, name in public():
        value = getattr(importlib.import_module(module), name)
        if not (inspect.isclass(value) or inspect.isfunction(value)):
            continue
        summary = (inspect.getdoc(value) or "").partition("\n\n")[0]
        assert re.match(r"[A-Za-z]", summary), f"{module}.{name}: {summary}"
        assert summary.endswith("."), f"{module}.{name}: {summary}"


def test_docstrings_on_the_reference_list_what_they_cite():
    """The site shows them without their module, which has the papers otherwise."""
    for module, name in public():
        value = getattr(importlib.import_module(module), name)
        members = vars(value).values() if inspect.isclass(value) else ()
        for part in (value, *members):
            text = getattr(part, "__doc__", None) or ""
            cited = set(re.findall(r"\[(\d+)\]_", text))
            assert cited <= set(re.findall(r"\.\. \[(\d+)\]", text)), f"{module}.{name}: {text}"


@pytest.mark.parametrize("name", MODULES)
def test_docstring_examples_run(name):
    try:
        module = importlib.import_module(name)
    except ModuleNotFoundError as missing:
        if missing.name not in ("torch", "triton"):
            raise
        pytest.skip(f"{missing.name} is not installed")
    failures, _ = doctest.testmod(module)
    assert failures == 0
