"""``python -m cornerstep.cli.demo FOLDER``: certified models on data that ship with scikit-learn.

One model of each estimator, each trained to a proven accuracy and measured on data it has not seen.
FOLDER/index.html reports them.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler

from cornerstep.learning.certificates import certificate
from cornerstep.reporting import section, write_page


@dataclass
class Model:
    """A trained estimator and the data that it is measured on."""

    name: str
    estimator: Any
    X: Any
    y: Any
    feature_names: list[str] | None = None

    @property
    def score(self) -> float:
        """Accuracy on data it has not seen (of labels in their chains for a structured model)."""
        return float(self.estimator.score(self.X, self.y))


def multiclass_svm(verbose: int) -> Model:
    """``min 1/2 |W|² + C sum_i Phi(W'x_i; y_i)``, Phi the top-2 hinge (digits, 10 classes)."""
    from cornerstep.multiclass.estimator import MulticlassSVC

    X, y = load_digits(return_X_y=True)
    train_X, test_X, train_y, test_y = train_test_split(X / 16, y, random_state=0, stratify=y)
    clf = MulticlassSVC(loss="top-k", k=2, tol=1e-5, random_state=0, verbose=verbose)
    pixels = [f"row {k // 8 + 1}, column {k % 8 + 1}" for k in range(64)]
    return Model("Multi-class SVM", clf.fit(train_X, train_y), test_X, test_y, pixels)


def kernel_svm(verbose: int) -> Model:
    """``min 1/2 |Au - Bv|²`` between the reduced convex hulls of two classes (breast cancer)."""
    from cornerstep.kernel_svm.estimator import ReducedHullSVC

    train_X, test_X, train_y, test_y, _ = _breast_cancer()
    clf = ReducedHullSVC(nu=0.1, tol=1e-5, random_state=0, verbose=verbose)
    return Model("Kernel SVM", clf.fit(train_X, train_y), test_X, test_y)


def boosted_trees(verbose: int) -> Model:
    """``max over w of the mean margin of the hardest tenth``, trees of depth 2 (breast cancer)."""
    from cornerstep.boosting.estimator import SoftMarginBoostingClassifier

    train_X, test_X, train_y, test_y, names = _breast_cancer()
    clf = SoftMarginBoostingClassifier(nu=0.1, atol=0.01, random_state=0, verbose=verbose)
    return Model("Boosted trees", clf.fit(train_X, train_y), test_X, test_y, names)


def chains(verbose: int) -> Model:
    """``min lambda/2 |w|² + mean structured hinge``: digits that mostly count upwards."""
    from cornerstep.structured import ChainModel
    from cornerstep.structured.estimator import StructuredSVC

    X, y = load_digits(return_X_y=True)
    train_X, test_X, train_y, test_y = train_test_split(X / 16, y, random_state=0, stratify=y)
    rng = np.random.default_rng(0)
    train, test = (_counting(rng, *part) for part in ((train_X, train_y), (test_X, test_y)))
    clf = StructuredSVC(
        ChainModel(), solver="bcfw-auto", atol=2e-4, random_state=0, verbose=verbose
    )
    return Model("Chains", clf.fit(*train), *test)


def _breast_cancer() -> tuple[Any, Any, Any, Any, list[str]]:
    data = load_breast_cancer()
    labels = data.target_names[data.target]
    train_X, test_X, train_y, test_y = train_test_split(
        data.data, labels, random_state=0, stratify=labels
    )
    scaler = StandardScaler().fit(train_X)
    return (scaler.transform(train_X), scaler.transform(test_X), train_y, test_y,
            list(data.feature_names))  # fmt: skip


def _counting(
    rng: np.random.Generator, X: Any, y: Any, n: int = 120
) -> tuple[list[Any], list[Any]]:
    """Chains of 4 to 9 images whose digit is the next one with probability 0.8."""
    of_digit = [np.flatnonzero(y == digit) for digit in range(10)]
    images, labels = [], []
    for _ in range(n):
        digits = [int(rng.integers(10))]
        for _ in range(int(rng.integers(3, 9))):
            follows = rng.random() < 0.8
            digits.append((digits[-1] + 1) % 10 if follows else int(rng.integers(10)))
        images.append(X[[int(rng.choice(of_digit[digit])) for digit in digits]])
        labels.append(np.array(digits))
    return images, labels


MODELS: tuple[Callable[[int], Model], ...] = (multiclass_svm, kernel_svm, boosted_trees, chains)


def show(models: list[Model], console: Console) -> None:
    """Print what is known about each model."""
    table = Table(title="Certified models")
    for column in ("model", "steps", "status", "value", "gap", "held-out error"):
        table.add_column(column, justify="left" if column == "model" else "right", no_wrap=True)
    for model in models:
        proof = certificate(model.estimator)
        table.add_row(
            model.name, str(proof.n_iter), str(proof.status), f"{proof.value:.6g}",
            f"{proof.gap:.1g}", f"{100 * (1 - model.score):.1f} %",
        )  # fmt: skip
    console.print(table)


def write_report(models: list[Model], folder: Path) -> Path:
    """Write one self-contained page and return its path."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "index.html"
    sections = [
        section(
            model.estimator, model.X, model.y, title=model.name, data_name="held-out data",
            feature_names=model.feature_names,
        )
        for model in models
    ]  # fmt: skip
    write_page("Certified models", sections, path)
    return path


def main(arguments: list[str] | None = None) -> None:
    """Train, show and report."""
    parser = argparse.ArgumentParser(prog="python -m cornerstep.cli.demo", description=__doc__)
    parser.add_argument("folder", type=Path, nargs="?", default=Path("report"))
    folder = parser.parse_args(arguments).folder
    models = []
    for train in MODELS:
        assert train.__doc__ is not None
        Console(stderr=True).print(train.__doc__.replace("``", ""), style="dim", highlight=False)
        models.append(train(1))
    console = Console()
    show(models, console)
    console.print(f"Report: {write_report(models, folder)}", soft_wrap=True)


if __name__ == "__main__":
    main()
