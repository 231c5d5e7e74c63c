"""Every Python block of the README and the documentation runs, top to bottom, page by page."""

import doctest
import importlib
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
MODULES = [
    name
    for _, name, _ in pkgutil.walk_packages(cornerstep.__path__, "cornerstep.")
    if not name.endswith("__main__")
]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_python_blocks_run(page, tmp_path, monkeypatch):
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    monkeypatch.chdir(tmp_path)
    namespace = {"__name__": "__docs__"}
    if "import torch" in page.read_text(encoding="utf-8"):
        pytest.importorskip("torch")
    for _, block in BLOCK.findall(page.read_text(encoding="utf-8")):
        exec(compile(textwrap.dedent(block), str(page), "exec"), namespace)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_between_pages_resolve(page):
    for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
        assert (page.parent / target).exists(), target


@pytest.mark.slow
def test_the_site_builds_without_warnings_and_shows_what_examples_say(tmp_path):
    pytest.importorskip("mkdocs")
    pytest.importorskip("material")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path)],
        cwd=ROOT, capture_output=True, text=True, timeout=600,
        env=dict(os.environ, NO_MKDOCS_2_WARNING="1"),
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "WARNING" not in done.stderr
    start = (tmp_path / "start.html").read_text(encoding="utf-8")
    assert "clf.status_ = solved" in start
    assert "data:image/svg+xml" in (tmp_path / "reports.html").read_text(encoding="utf-8")
    for page in tmp_path.glob("*.html"):
        text = page.read_text(encoding="utf-8")
        for target in re.findall(r'(?:src|srcset)="(pictures/[^"]+)"', text):
            assert (tmp_path / target).exists(), (page, target)


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
