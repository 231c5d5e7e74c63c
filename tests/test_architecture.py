"""The four learning problems are of one shape, and nobody looks into another module's drawers."""

from __future__ import annotations

import ast
import importlib
import inspect
import typing
from pathlib import Path

import pytest

import cornerstep
from cornerstep.learning import training
from cornerstep.learning.estimator import CertifiedEstimator

SOURCE = Path(cornerstep.__file__).parent
FOUR = {
    "multiclass": "MulticlassSVC",
    "kernel_svm": "ReducedHullSVC",
    "structured": "StructuredSVC",
    "boosting": "SoftMarginBoostingClassifier",
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
    kind = getattr(cornerstep, FOUR[package])
    assert issubclass(kind, CertifiedEstimator)
    for name, method in inspect.getmembers(CertifiedEstimator, inspect.isfunction):
        if not name.startswith("_") and name in vars(CertifiedEstimator):
            own = inspect.signature(getattr(kind, name))
            assert list(own.parameters) == list(inspect.signature(method).parameters), name


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
        targets = node.targets if isinstance(node, ast.Assign) else []
        for target in [t for each in targets for t in ast.walk(each)]:
            stored = isinstance(getattr(target, "ctx", None), ast.Store)
            if stored and isinstance(target, ast.Attribute) and isinstance(target.value, ast.Name):
                owner = target.value.id
                assert owner not in ("model", "clf", "estimator"), f"{path}:{node.lineno}"
