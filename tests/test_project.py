"""What the project says of itself in several places is the same in all of them."""

from __future__ import annotations

import importlib
import pkgutil
import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

import cornerstep

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
FORMS = sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml"))
PAGES = ("README", "CONTRIBUTING", "SECURITY", "CHANGELOG")


def parsed(path):
    return pytest.importorskip("yaml").safe_load(path.read_text(encoding="utf-8"))


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_workflows_have_jobs_whose_steps_do_something(path):
    workflow = parsed(path)
    assert workflow["permissions"] == {"contents": "read"}
    for job in workflow["jobs"].values():
        assert job["runs-on"]
        for step in job["steps"]:
            assert ("run" in step) != ("uses" in step)
            for target in re.findall(r"make ([a-z-]+)", step.get("run", "")):
                assert f"\n{target}:" in (ROOT / "Makefile").read_text(encoding="utf-8")


def test_ci_tests_every_system_and_every_python_that_the_metadata_names():
    matrix = parsed(ROOT / ".github/workflows/ci.yml")["jobs"]["tests"]["strategy"]["matrix"]
    assert {system.split("-")[0] for system in matrix["os"]} == {"ubuntu", "macos", "windows"}
    named = re.findall(r"Python :: (3\.\d+)", "\n".join(PROJECT["project"]["classifiers"]))
    assert matrix["python"] == named
    assert PROJECT["project"]["requires-python"] == f">={named[0]}"


@pytest.mark.parametrize("path", FORMS, ids=lambda path: path.name)
def test_issue_forms_ask_for_something(path):
    form = parsed(path)
    if path.name != "config.yml":
        assert {"name", "description", "body"} <= set(form)
        assert all(field["attributes"]["label"] for field in form["body"])


def test_every_place_names_the_same_version():
    citation = parsed(ROOT / "CITATION.cff")
    assert citation["version"] == cornerstep.__version__
    assert citation["license"] == PROJECT["project"]["license"]
    assert citation["authors"] == PROJECT["project"]["authors"]
    changes = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    headings = re.findall(r"^## \[(.*?)\]", changes, re.MULTILINE)
    assert headings[:2] == ["Unreleased", cornerstep.__version__]
    kinds = set(re.findall(r"^### (.*)$", changes, re.MULTILINE))
    assert kinds <= {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}
    assert all(f"\n[{heading}]: https://" in changes for heading in headings)


@pytest.mark.parametrize("page", PAGES)
def test_links_of_the_pages_at_the_top_resolve(page):
    text = (ROOT / f"{page}.md").read_text(encoding="utf-8")
    for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", text):
        assert (ROOT / target).exists(), target


def test_the_wheel_has_what_it_needs_and_links_that_lead_somewhere(tmp_path):
    """Package indexes show the README apart from its folder: no link of it may be relative."""
    pytest.importorskip("hatchling")
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    with zipfile.ZipFile(next(tmp_path.glob("*.whl"))) as wheel:
        names = set(wheel.namelist())
        metadata = next(name for name in names if name.endswith("METADATA"))
        text = wheel.read(metadata).decode("utf-8")
    source = ROOT / "src"
    files = [path.relative_to(source) for path in (source / "cornerstep").rglob("*.*")]
    assert {file.as_posix() for file in files if "__pycache__" not in file.parts} <= names
    repository = PROJECT["project"]["urls"]["Source"]
    links = re.findall(r"\]\(([^)]+)\)", text)
    assert len(links) > 20
    for link in links:
        assert re.match(r"https://|#", link), link
        if link.startswith(repository):
            there = re.fullmatch(r"/(?:blob|raw)/main/([^#]+)(?:#.*)?", link[len(repository) :])
            assert there is not None, link
            assert (ROOT / there[1]).exists(), link
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert len(links) == len(re.findall(r"\]\(([^)]+)\)", readme))


def test_the_picture_of_the_architecture_has_the_layers_that_the_linter_checks():
    pytest.importorskip("matplotlib")
    from pictures.house import LAYERS

    layers = PROJECT["tool"]["importlinter"]["contracts"][0]["layers"]
    checked = [tuple(re.findall(r"cornerstep\.(\w+)", layer)) for layer in layers]
    assert [packages for _, packages, _ in LAYERS] == checked
    svg = (ROOT / "docs/pictures/architecture.svg").read_text(encoding="utf-8")
    page = (ROOT / "docs/architecture.md").read_text(encoding="utf-8")
    for package in sum(checked, ()):
        assert f">{package}<" in svg, "run python -m pictures"
        assert f"`{package}`" in page


def papers(text):
    """(surname of the first author, year) of every paper in a list of them."""
    for entry in re.split(r"^(?:- |\.\. \[\d+\] )", text, flags=re.MULTILINE)[1:]:
        years = re.findall(r"\b(?:19|20)\d\d\b", entry)
        yield " ".join(entry.split()), years[-1] if years else ""


def test_every_paper_that_a_module_names_is_on_the_page_with_that_module():
    page = (ROOT / "docs" / "references.md").read_text(encoding="utf-8")
    listed = [(re.findall(r"[^\W\d_]{2,}", entry)[0], year, entry) for entry, year in papers(page)]
    for _, name, _ in pkgutil.walk_packages(cornerstep.__path__, "cornerstep."):
        if "triton" in name or name.endswith("__main__"):
            continue
        try:
            text = importlib.import_module(name).__doc__ or ""
        except ModuleNotFoundError:  # of an optional package
            continue
        _, heading, section = text.partition("\nReferences\n----------\n")
        assert bool(heading) == bool(section.strip())
        for cited, year in papers(section):
            found = [e for author, y, e in listed if author in cited and y == year]
            assert found, f"{name} names a paper that docs/references.md has not: {cited}"
            module = name.removeprefix("cornerstep.")
            assert any(f"`{module}`" in entry for entry in found), f"{module}: {cited}"


def test_every_module_that_the_page_of_papers_names_is_there():
    page = (ROOT / "docs" / "references.md").read_text(encoding="utf-8")
    for module in set(re.findall(r"`([a-z_.]+)`", page)):
        assert (ROOT / "src/cornerstep" / f"{module.replace('.', '/')}.py").exists(), module
