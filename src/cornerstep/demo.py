"""``python -m cornerstep.demo FOLDER``: certified models on data that ship with scikit-learn.

A multi-class SVM (the estimator), and three models made with the optimiser alone: a kernel SVM
(reduced convex hulls: a product of capped simplices), an ensemble of trees (a simplex) and a sparse
regression (an l1 ball).  Each is shown with its certificate, and FOLDER/index.html reports them.
"""

from __future__ import annotations

import argparse
import base64
import html
import io
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits
from sklearn.ensemble import RandomForestClassifier
from sklearn.metrics import r2_score
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler

from cornerstep.domains import CappedSimplex, L1Ball, Product, Simplex
from cornerstep.estimators.multiclass import MulticlassSVC
from cornerstep.objectives import LeastSquares, Quadratic
from cornerstep.optimiser import Result, Status, Trace, minimize
from cornerstep.vectors import FloatArray


@dataclass
class Model:
    """A trained model and what is known about it."""

    name: str
    problem: str
    method: str
    n_iter: int
    status: Status
    value: float
    gap: float
    trace: Trace
    score_name: str
    score: float

    @classmethod
    def of(cls, name: str, problem: str, result: Result, score_name: str, score: float) -> Model:
        """A model that the optimiser found."""
        method = f"{result.method}, {result.step} steps"
        return cls(
            name, problem, method, result.n_iter, result.status, result.value, result.gap,
            result.trace, score_name, score,
        )  # fmt: skip

    @property
    def relative_gap(self) -> float:
        """The certificate relative to the value."""
        return self.gap / abs(self.value)

    @property
    def seconds(self) -> float:
        """How long it took."""
        return float(self.trace["seconds"][-1])


def multiclass_svm(verbose: int) -> Model:
    """``min 1/2 |W|² + C sum_i Phi(W'x_i; y_i)``, Phi the top-2 hinge (digits, 10 classes)."""
    X, y = load_digits(return_X_y=True)
    train_X, test_X, train_y, test_y = train_test_split(X / 16, y, random_state=0, stratify=y)
    clf = MulticlassSVC(loss="top-k", k=2, tol=1e-6, random_state=0, verbose=verbose)
    clf.fit(train_X, train_y)
    return Model(
        "Multi-class SVM", "digits, 10 classes, top-2 hinge", "block ascent", clf.n_iter_,
        clf.status_, clf.objective_, clf.gap_, clf.trace_,
        "in top 2", clf.top_k_score(test_X, test_y, k=2),
    )  # fmt: skip


def kernel_svm(verbose: int) -> Model:
    """``min 1/2 |Au - Bv|²`` between the reduced convex hulls of two classes (nu = 0.1)."""
    X, y = load_breast_cancer(return_X_y=True)
    train_X, test_X, train_y, test_y = train_test_split(X, y, random_state=0, stratify=y)
    scaler = StandardScaler().fit(train_X)
    order = np.argsort(train_y == 0, kind="stable")  # positives first
    train_X, sign = scaler.transform(train_X)[order], np.where(train_y[order] == 1, 1.0, -1.0)
    gamma = 1.0 / X.shape[1]
    kernel = rbf_kernel(train_X, gamma=gamma)
    positives = int((sign > 0).sum())
    budget = 0.1 * sign.size / 2
    result = minimize(
        Quadratic(kernel * np.outer(sign, sign)),
        Product([CappedSimplex(positives, budget), CappedSimplex(sign.size - positives, budget)]),
        rtol=1e-5,
        tol=0.0,
        verbose=verbose,
    )
    # Free examples, strictly between 0 and 1, sit on their class's threshold.
    scores = kernel @ (result.x * sign)
    free = (result.x > 1e-6) & (result.x < 1 - 1e-6)
    bias = (scores[free & (sign > 0)].mean() + scores[free & (sign < 0)].mean()) / 2
    predicted = rbf_kernel(scaler.transform(test_X), train_X, gamma=gamma) @ (result.x * sign)
    accuracy = float(((predicted > bias) == (test_y == 1)).mean())
    problem = "breast cancer, RBF kernel, product of two capped simplices"
    return Model.of("Kernel SVM", problem, result, "accuracy", accuracy)


def tree_ensemble(verbose: int) -> Model:
    """``min 1/2 |Aw - 1|²`` over weights w of 200 trees on the simplex, A the margins (digits)."""
    X, y = load_digits(return_X_y=True)
    sign = np.where(y % 2 == 0, 1.0, -1.0)  # even against odd
    train_X, test_X, train_sign, test_sign = train_test_split(X, sign, random_state=0)
    forest = RandomForestClassifier(200, max_depth=4, random_state=0).fit(train_X, train_sign)

    def votes(X: FloatArray) -> FloatArray:
        return np.column_stack([2 * tree.predict_proba(X)[:, 1] - 1 for tree in forest])

    margins = train_sign[:, None] * votes(train_X)
    objective = LeastSquares(margins, np.ones(train_sign.size), gram=True)
    result = minimize(objective, Simplex(200), rtol=1e-6, tol=0.0, verbose=verbose)
    accuracy = float((np.sign(votes(test_X) @ result.x) == test_sign).mean())
    problem = f"digits, even against odd, simplex; {np.count_nonzero(result.x)} of 200 trees kept"
    return Model.of("Tree ensemble", problem, result, "accuracy", accuracy)


def sparse_regression(verbose: int) -> Model:
    """``min 1/2 |Xw - y|²`` over ``|w|_1 <= radius`` (diabetes)."""
    X, y = load_diabetes(return_X_y=True)
    train_X, test_X, train_y, test_y = train_test_split(X, y, random_state=0)
    mean, scale = train_y.mean(), train_y.std()
    objective = LeastSquares(train_X * np.sqrt(X.shape[0]), (train_y - mean) / scale)
    result = minimize(objective, L1Ball(X.shape[1], 1.2), rtol=1e-6, tol=0.0, verbose=verbose)
    score = r2_score((test_y - mean) / scale, test_X * np.sqrt(X.shape[0]) @ result.x)
    return Model.of("Sparse regression", "diabetes, l1 ball", result, "R²", float(score))


MODELS: tuple[Callable[[int], Model], ...] = (
    multiclass_svm,
    kernel_svm,
    tree_ensemble,
    sparse_regression,
)


def show(models: list[Model], console: Console) -> None:
    """Print what is known about each model."""
    table = Table(title="Certified models")
    for column in ("model", "steps", "status", "objective", "within", "held out"):
        table.add_column(column, justify="left" if column == "model" else "right", no_wrap=True)
    for model in models:
        table.add_row(
            model.name,
            str(model.n_iter),
            str(model.status),
            f"{model.value:.6g}",
            f"{100 * model.relative_gap:.1g} %",
            f"{model.score_name} {model.score:.3f}",
        )
    console.print(table)


def write_report(models: list[Model], folder: Path) -> Path:
    """Write one self-contained page and return its path."""
    sections = "".join(_section(model) for model in models)
    page = f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>cornerstep demo</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<style>
:root {{ color-scheme: light dark; }}
body {{ font: 16px/1.5 system-ui, sans-serif; max-width: 52rem; margin: 2rem auto;
  padding: 0 1rem; }}
section {{ border-top: 1px solid #8884; padding: 1rem 0; }}
dl {{ display: grid; grid-template-columns: max-content 1fr; gap: .2rem 1rem; }}
dt {{ opacity: .7; }} dd {{ margin: 0; font-variant-numeric: tabular-nums; }}
img {{ max-width: 100%; background: white; border-radius: .4rem; }}
</style></head><body>
<h1>Certified models</h1>
<p>Every model below comes with a proof of how far its objective can be from the optimum: the
duality gap, recomputed at the returned model from the data.</p>
{sections}</body></html>
"""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "index.html"
    path.write_text(page, encoding="utf-8")
    return path


def _section(model: Model) -> str:
    facts = {
        "problem": model.problem,
        "method": f"{model.method}, {model.n_iter} iterations",
        "status": f"{model.status}: {model.status.message}",
        "objective": f"{model.value:.8g}",
        "gap": f"{model.gap:.3g} ({100 * model.relative_gap:.2g} % of the objective)",
        f"held-out {model.score_name}": f"{model.score:.3f}",
        "seconds": f"{model.seconds:.2f}",
    }
    rows = "".join(f"<dt>{html.escape(k)}</dt><dd>{html.escape(v)}</dd>" for k, v in facts.items())
    alt = f"Duality gap of the {model.name} against iterations, falling to {model.gap:.2g}"
    picture = f'<img alt="{html.escape(alt)}" src="data:image/png;base64,{_plot(model)}">'
    return f"<section><h2>{html.escape(model.name)}</h2><dl>{rows}</dl>{picture}</section>\n"


def _plot(model: Model) -> str:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 2.6), layout="constrained", dpi=150)
    axes = model.trace.plot(figure.add_subplot(), label=model.method)
    axes.grid(alpha=0.3)
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png")
    return base64.b64encode(buffer.getvalue()).decode()


def main(arguments: list[str] | None = None) -> None:
    """Train, show and report."""
    parser = argparse.ArgumentParser(prog="python -m cornerstep.demo", description=__doc__)
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
