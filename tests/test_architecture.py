"""The four learning problems are of one shape, and nobody looks into another module's drawers."""

from __future__ import annotations

import ast
import importlib
import inspect
import re
import typing
from pathlib import Path

import pytest

import cornerstep
from cornerstep.learning import training
from cornerstep.learning.estimator import CertifiedEstimator

SOURCE = Path(cornerstep.__file__).parent
FOUR = {
    "multiclass": ("MulticlassSVC",),
    "kernel_svm": ("ReducedHullSVC", "OneClassHull", "ReducedHullSVR"),
    "structured": ("StructuredSVC",),
    "boosting": ("SoftMarginBoostingClassifier",),
}
MODULES = ("estimator", "parameters", "training", "problem", "verification", "model_file")
PACKAGES = ("solvers", "compiled")


@pytest.mark.parametrize("package", FOUR)
def test_the_four_have_the_same_rooms(package):
    for module in MODULES:
        importlib.import_module(f"cornerstep.{package}.{module}")
    for room in PACKAGES:
        assert (SOURCE / package / room / "__init__.py").exists()


@pytest.mark.parametrize("package", FOUR)
def test_the_four_have_the_same_signatures(package):
    def of(module, function):
        home = importlib.import_module(f"cornerstep.{package}.{module}")
        return list(inspect.signature(getattr(home, function)).parameters)

    assert len(of("parameters", "check_parameters")) == 1
    assert len(of("verification", "recompute")) == 6
    home = importlib.import_module(f"cornerstep.{package}.training")
    assert of("training", "train") == ["problem", "settings"]
    assert issubclass(home.Settings, training.Settings)
    assert issubclass(home.Training, training.Training)
    assert typing.get_type_hints(home.train)["return"] is home.Training


@pytest.mark.parametrize("name", [name for names in FOUR.values() for name in names])
def test_all_estimators_have_the_signatures_of_the_protocol(name):
    kind = getattr(cornerstep, name)
    assert issubclass(kind, CertifiedEstimator)
    for name, method in inspect.getmembers(CertifiedEstimator, inspect.isfunction):
        if not name.startswith("_") and name in vars(CertifiedEstimator):
            own = inspect.signature(getattr(kind, name))
            asked = inspect.signature(method)  # the first is the estimator, whatever its name
            assert list(own.parameters)[1:] == list(asked.parameters)[1:], name


@pytest.mark.parametrize(
    "path", sorted(SOURCE.rglob("*.py")), ids=lambda p: str(p.relative_to(SOURCE))
)
def test_private_names_stay_at_home(path):
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("cornerstep"):
            private = [a.name for a in node.names if a.name.startswith("_")]
            assert set(private) <= {"__version__"}, f"{path}: {private}"


@pytest.mark.parametrize(
    "path", sorted(SOURCE.rglob("*.py")), ids=lambda p: str(p.relative_to(SOURCE))
)
def test_nobody_writes_into_an_estimator_but_itself(path):
    """Functions that are given a model or classifier read it."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if not isinstance(node, ast.Assign):
            continue
        for target in [t for each in node.targets for t in ast.walk(each)]:
            stored = isinstance(getattr(target, "ctx", None), ast.Store)
            if stored and isinstance(target, ast.Attribute) and isinstance(target.value, ast.Name):
                owner = target.value.id
                assert owner not in ("model", "clf", "estimator"), f"{path}:{node.lineno}"


#: Names with an underscore that tests may use, and why.
ALLOWED = {
    "_replace": "of every named tuple",
    "_repr_html_": "of every notebook",
    "_repr_mimebundle_": "of every notebook",
    "_cache": "of the compiler",
    "_cache_file": "of the compiler",
    "_open_for_write": "of the compiler",
    "_machines": "what a fitted model keeps: tests falsify it",
    "_support_rows": "what a fitted model keeps: these rows and no others",
    "_dual_coef": "what a fitted model keeps: coefficients, or what makes them when asked for",
    "_state": "what a fitted model keeps: for a warm start only",
    "_newton": "one step of a solver, which is only run to its end",
    "_problem": "of a benchmark, which is no part of the library",
    "_cube": "of a benchmark, which is no part of the library",
    "_chain": "of the attack, which is no part of the library",
}


def private_names(tree):
    """Attributes with an underscore of anything but ``self``; such names imported or patched."""
    for node in ast.walk(tree):
        names = []
        if isinstance(node, ast.Attribute):
            own = isinstance(node.value, ast.Name) and node.value.id in ("self", "cls")
            names = [] if own else [node.attr]
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("cornerstep"):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith(("setattr", "getattr")):
            texts = [part.value for part in node.args if isinstance(part, ast.Constant)]
            names = [str(text).rpartition(".")[2] for text in texts]
        # in capitals: a size from which on things are done otherwise, which a test sets low
        yield from (name for name in names if re.match(r"_[a-z]", name))


def test_tests_use_what_is_public():
    used = {
        (name, path.name)
        for path in Path(__file__).parent.rglob("*.py")
        for name in private_names(ast.parse(path.read_text(encoding="utf-8")))
    }
    assert {pair for pair in used if pair[0] not in ALLOWED} == set()
    assert {name for name, _ in used} == set(ALLOWED)  # none is there for nothing
