"""One picture for each page: trained models of the library, drawn."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_breast_cancer, load_digits, make_moons
from sklearn.preprocessing import StandardScaler

from cornerstep import (
    MulticlassSVC,
    OneClassHull,
    ReducedHullSVC,
    ReducedHullSVR,
    SoftMarginBoostingClassifier,
    StructuredSVC,
    minimize,
    regularization_path,
    select_C,
)
from cornerstep.core.vectors import dense
from cornerstep.domains import Ball, Box, CappedSimplex, ConvexHull, L1Ball, Simplex
from cornerstep.learning.measures import top_k_errors
from cornerstep.objectives import LeastSquares, Quadratic
from cornerstep.structured import ChainModel
from pictures.style import (
    BLUE,
    GREEN,
    GREY,
    INK,
    MUTED,
    ORANGE,
    PAPER,
    PURPLE,
    SERIES,
    bare,
    drawing,
    save,
)


def certificate() -> Path:
    """Objective and bound of a multi-class SVM meet; the gap between them falls to its target."""
    X, y = load_digits(return_X_y=True)
    clf = MulticlassSVC(loss="top-k", k=3, tol=1e-4, random_state=0).fit(X / 16, y)
    trace = clf.trace_
    value, bound = trace["value"].astype(float), np.maximum.accumulate(trace["dual"].astype(float))
    value = np.minimum.accumulate(value)
    passes = trace["iteration"]
    with drawing():
        figure, (left, right) = plt.subplots(1, 2, figsize=(8.6, 3.1), layout="constrained")
        left.fill_between(passes, bound, value, color=BLUE, alpha=0.15, linewidth=0)
        left.plot(passes, value, color=ORANGE, label="objective of the model")
        left.plot(passes, bound, color=BLUE, label="proven bound: no model is below")
        spread = value[-1]
        left.set(
            title="The best possible model lies in between", xlabel="rounds", ylabel="objective",
            ylim=(0.55 * spread, 1.6 * spread),
        )  # fmt: skip
        left.legend(loc="upper right")
        right.semilogy(passes, (value - bound) / value, color=GREEN, marker="o", markersize=3)
        right.axhline(1e-4, color=MUTED, linewidth=1, linestyle="--")
        right.text(0, 1.25e-4, "asked for: 0.01 %", color=MUTED, fontsize=9)
        right.set(
            title="The gap, as a share of the objective", xlabel="rounds", ylim=(4e-5, 2),
            yticks=[1, 0.1, 0.01, 1e-3, 1e-4],
        )  # fmt: skip
        right.set_yticklabels(["100 %", "10 %", "1 %", "0.1 %", "0.01 %"])
        right.minorticks_off()
        return save(figure, "certificate")


def multiclass() -> Path:
    """Four classes of the plane with their regions; errors of the first k guesses."""
    rng = np.random.default_rng(3)
    centres = np.array([[-1.6, -1.0], [1.5, -1.1], [0.1, 0.3], [0.2, 1.9]])
    y = np.repeat(np.arange(4), 45)
    X = centres[y] + 0.62 * rng.standard_normal((y.size, 2))
    clf = MulticlassSVC(C=1.0, random_state=0).fit(X, y)
    base = 1.2 * rng.standard_normal((10, 8))  # ten groups of three classes that are much alike
    middles = np.repeat(base, 3, axis=0) + 0.3 * rng.standard_normal((30, 8))
    parts = [rng.integers(30, size=n) for n in (1500, 1500, 3000)]
    train, check, test = (
        (middles[labels] + rng.standard_normal((labels.size, 8)), labels) for labels in parts
    )
    ks = np.arange(1, 6)
    with drawing():
        figure, (left, right) = plt.subplots(1, 2, figsize=(8.6, 3.5), layout="constrained")
        _regions(left, clf, X)
        for k in range(4):
            some = y == k
            left.scatter(*X[some].T, s=14, color=SERIES[k], edgecolor=PAPER, linewidth=0.5)
        left.set_title("One machine for all classes")
        bare(left)
        for loss, colour, k in (("max-hinge", BLUE, 1), ("top-k, k = 3", ORANGE, 3)):
            models = [
                MulticlassSVC(loss="top-k", k=k, C=C, tol=1e-2, random_state=0).fit(*train)
                for C in (0.1, 1.0, 10.0)
            ]
            best = max(models, key=lambda model: model.top_k_score(*check, k=3))
            errors = [100 * (1 - best.top_k_score(*test, k=int(j))) for j in ks]
            right.plot(ks, errors, "o-", color=colour, label=loss)
        right.set(title="30 classes, alike in threes", xlabel="guesses allowed", xticks=ks)
        right.set_ylabel("held-out error, %")
        right.set_ylim(bottom=0)
        right.legend()
        return save(figure, "multiclass")


def _regions(ax: Any, clf: Any, X: Any) -> None:
    """Where a classifier of the plane answers what: outlines and tints."""
    low, high = X.min(axis=0) - 0.4, X.max(axis=0) + 0.4
    across, up = np.meshgrid(np.linspace(low[0], high[0], 80), np.linspace(low[1], high[1], 80))
    scores = clf.decision_function(np.column_stack([across.ravel(), up.ravel()]))
    answer = scores.argmax(axis=1).reshape(across.shape)
    for k in range(scores.shape[1]):
        own = scores[:, k] - np.delete(scores, k, axis=1).max(axis=1)
        own = own.reshape(across.shape)
        ax.contourf(across, up, own, levels=[0, 1e9], colors=[SERIES[k]], alpha=0.16)
        ax.contour(across, up, own, levels=[0], colors=[MUTED], linewidths=0.9)
        ax.contour(
            across, up, np.where(answer == k, own, np.nan), levels=[1], colors=[SERIES[k]],
            linewidths=0.8, linestyles="--",
        )  # fmt: skip


def kernel() -> Path:
    """Reduced convex hulls with their nearest points; two moons with an rbf kernel."""
    rng = np.random.default_rng(1)
    labels = np.repeat([0, 1], 40)
    X = np.array([[-1.1, -0.5], [1.1, 0.5]])[labels] + 0.8 * rng.standard_normal((80, 2))
    K = 9.0
    clf = ReducedHullSVC(K=K, kernel="linear", tol=1e-6, random_state=0).fit(X, labels)
    alpha = np.zeros(80)
    alpha[clf.support_] = np.abs(clf.dual_coef_.ravel())
    nearest = [(alpha[side] / alpha[side].sum()) @ X[side] for side in (labels == 0, labels == 1)]
    moons, halves = make_moons(160, noise=0.16, random_state=0)
    curved = ReducedHullSVC(nu=0.2, gamma=1.5, random_state=0).fit(moons, halves)
    with drawing():
        figure, (left, right) = plt.subplots(1, 2, figsize=(8.6, 3.5), layout="constrained")
        for side, colour in ((0, BLUE), (1, ORANGE)):
            points = X[labels == side]
            left.scatter(*points.T, s=12, color=colour, edgecolor=PAPER, linewidth=0.5, zorder=3)
            for weight, line, fill in ((1.0, "--", 0.0), (K, "-", 0.2)):
                outline = _reduced_hull(points, weight)
                left.plot(*outline.T, line, color=colour, linewidth=1.1)
                left.fill(*outline.T, color=colour, alpha=fill, linewidth=0)
        left.plot(*np.array(nearest).T, "o-", color=INK, markersize=5, zorder=4)
        middle, normal = (nearest[0] + nearest[1]) / 2, nearest[1] - nearest[0]
        along = np.array([-normal[1], normal[0]]) / np.linalg.norm(normal)
        left.plot(*np.array([middle - 2.6 * along, middle + 2.6 * along]).T, color=GREEN)
        left.set_title("Hulls overlap; reduced hulls (K = 9) do not")
        bare(left)
        _boundary(right, curved, moons)
        for side, colour in ((0, BLUE), (1, ORANGE)):
            right.scatter(*moons[halves == side].T, s=12, color=colour, edgecolor=PAPER, lw=0.5)
        right.scatter(
            *moons[curved.support_].T, s=46, facecolor="none", edgecolor=INK, linewidth=0.8
        )
        right.set_title(f"rbf kernel, nu = 0.2: {curved.support_.size} support vectors")
        bare(right)
        return save(figure, "kernel")


def one_class() -> Path:
    """The border of a one-class hull around three clouds; a regression with its tube."""
    rng = np.random.default_rng(2)
    X = np.array([[-1.5, 0.0], [1.3, 0.8], [0.9, -1.2]])[np.arange(240) % 3]
    X = X + 0.4 * rng.standard_normal(X.shape)
    border = OneClassHull(nu=0.1, gamma=0.8, random_state=0).fit(X)
    x = np.sort(rng.uniform(0, 7, 150))
    y = np.sin(x) + 0.25 * rng.standard_normal(150)
    line = ReducedHullSVR(C=10, nu=0.4, gamma=0.5, random_state=0).fit(x[:, None], y)
    with drawing():
        figure, (left, right) = plt.subplots(1, 2, figsize=(8.6, 3.5), layout="constrained")
        _boundary(left, border, X)
        for side, colour in ((1, ORANGE), (-1, BLUE)):
            left.scatter(
                *X[border.predict(X) == side].T, s=12, color=colour, edgecolor=PAPER, lw=0.5
            )
        left.set_title(f"One class, nu = 0.1: {int((border.predict(X) < 0).sum())} of 240 outside")
        bare(left)
        across = np.linspace(0, 7, 300)
        middle = line.predict(across[:, None])
        right.fill_between(
            across, middle - line.epsilon_, middle + line.epsilon_, color=GREEN, alpha=0.15, lw=0
        )
        right.plot(across, middle, color=GREEN)
        right.scatter(x, y, s=10, color=INK, edgecolor=PAPER, lw=0.5, zorder=3)
        right.set_title(f"Regression, nu = 0.4: a tube of +-{line.epsilon_:.2f} is found")
        bare(right)
        return save(figure, "one-class")


def _reduced_hull(points: Any, K: float) -> Any:
    """The outline of ``{sum_i u_i x_i / K : 0 <= u <= 1, sum u = K}``, by its support points."""
    out = []
    for angle in np.linspace(0, 2 * np.pi, 181):
        order = np.argsort(-(points @ [np.cos(angle), np.sin(angle)]))
        out.append(points[order[: int(K)]].mean(axis=0))
    return _distinct(np.array(out))


def _distinct(outline: Any) -> Any:
    """Without repeated corners, and closed."""
    moved = np.linalg.norm(np.diff(outline, axis=0, prepend=np.nan), axis=1)
    kept = outline[~(moved < 1e-9)]
    return np.vstack([kept, kept[:1]])


def _boundary(ax: Any, clf: Any, X: Any) -> None:
    low, high = X.min(axis=0) - 0.3, X.max(axis=0) + 0.3
    across, up = np.meshgrid(np.linspace(low[0], high[0], 80), np.linspace(low[1], high[1], 80))
    scores = clf.decision_function(np.column_stack([across.ravel(), up.ravel()]))
    scores = scores.reshape(across.shape)
    ax.contourf(across, up, scores, levels=[-1e9, 0], colors=[BLUE], alpha=0.12)
    ax.contourf(across, up, scores, levels=[0, 1e9], colors=[ORANGE], alpha=0.12)
    ax.contour(across, up, scores, levels=[0], colors=[GREEN], linewidths=1.8)
    ax.contour(across, up, scores, levels=[-1, 1], colors=[MUTED], linewidths=0.9, linestyles="--")


def structured() -> Path:
    """Blurred digits that count upwards, read one by one and as a chain."""
    X, y = load_digits(return_X_y=True)
    rng = np.random.default_rng(0)
    of_digit = [np.flatnonzero(y == digit) for digit in range(10)]

    def draw(n: int) -> tuple[list[Any], list[Any]]:
        labelings = [(rng.integers(10) + np.arange(rng.integers(5, 10))) % 10 for _ in range(n)]
        images = [X[[rng.choice(of_digit[digit]) for digit in word]] / 16 for word in labelings]
        return [x + 0.22 * rng.standard_normal(x.shape) for x in images], labelings

    words, labels = draw(150)
    tests, truth = draw(60)
    alone = MulticlassSVC(C=0.1, random_state=0).fit(np.vstack(words), np.concatenate(labels))
    chain = StructuredSVC(ChainModel(), solver="bcfw-auto", random_state=0).fit(words, labels)
    single = [alone.predict(x) for x in tests]
    together = chain.predict(tests)
    letters = np.concatenate(truth)
    shares = [100 * np.mean(np.concatenate(answers) != letters) for answers in (single, together)]
    gain = [
        len(t) >= 8 and 2 <= (s != t).sum() <= 4 and (c == t).all()
        for s, c, t in zip(single, together, truth, strict=True)
    ]
    shown = int(np.argmax(gain))
    n = len(truth[shown])
    with drawing():
        figure, axes = plt.subplots(1, n, figsize=(8.6, 2.1))
        figure.subplots_adjust(left=0.27, right=0.99, top=0.98, bottom=0.42, wspace=0.08)
        rows = (
            (f"one by one ({shares[0]:.0f} % wrong)", single[shown], 0.22),
            (f"as a chain ({shares[1]:.0f} % wrong)", together[shown], 0.05),
        )
        for name, _, height in rows:
            figure.text(0.01, height + 0.03, name, fontsize=10)
        figure.text(0.01, 0.68, "what is seen", fontsize=10)
        for t, ax in enumerate(axes):
            image = tests[shown][t].reshape(8, 8)
            ax.imshow(image, cmap="gray_r", vmin=-0.5, vmax=1.3, interpolation="nearest")
            bare(ax)
            place = ax.get_position()
            for _, answers, height in rows:
                right = answers[t] == truth[shown][t]
                figure.text(
                    (place.x0 + place.x1) / 2, height, str(answers[t]), ha="center", fontsize=15,
                    color=INK if right else ORANGE, weight="normal" if right else "bold",
                )  # fmt: skip
        return save(figure, "structured")


def boosting() -> Path:
    """Soft margin and bound by round; the margins, of which the worst tenth counts."""
    X, y = load_breast_cancer(return_X_y=True)
    clf = SoftMarginBoostingClassifier(nu=0.1, atol=0.01, random_state=0).fit(X, y)
    trace = clf.trace_
    margins = np.sort(clf.margins_)
    share = np.arange(1, margins.size + 1) / margins.size
    with drawing():
        figure, (left, right) = plt.subplots(1, 2, figsize=(8.6, 3.1), layout="constrained")
        soft = np.maximum.accumulate(trace["soft_margin"].astype(float))
        bound = np.minimum.accumulate(trace["bound"].astype(float))
        rounds = trace["iteration"]
        left.fill_between(rounds, soft, bound, color=BLUE, alpha=0.15, linewidth=0)
        left.plot(rounds, bound, color=BLUE, label="proven bound: no ensemble is above")
        left.plot(rounds, soft, color=ORANGE, label="soft margin of the ensemble")
        left.set(title="Soft margin, round by round", xlabel="rounds")
        left.set_ylim(soft[-1] - 0.45, soft[-1] + 0.45)
        left.legend(loc="lower right")
        right.step(margins, share, where="post", color=GREEN)
        worst = share <= 0.1
        right.fill_between(margins[worst], 0, share[worst], step="post", color=ORANGE, alpha=0.35,
                           linewidth=0)  # fmt: skip
        right.axvline(clf.objective_, color=ORANGE, linestyle="--", linewidth=1.3)
        right.annotate(
            "soft margin: the mean\nof the worst tenth", (clf.objective_, 0.62), (-8, 0),
            textcoords="offset points", color=ORANGE, fontsize=9, ha="right",
        )  # fmt: skip
        right.set(title="Margins of the training examples", xlabel="margin", ylim=(0, 1.02))
        right.set_ylabel("share at or below")
        return save(figure, "boosting")


class _Path:
    """Points that a run passes through."""

    def __init__(self) -> None:
        self.points: list[Any] = []

    def __call__(self, iterate: Any) -> None:
        self.points.append(np.array(iterate.x))


def minimise() -> Path:
    """Plain Frank-Wolfe zigzags towards a face, away steps do not; gaps over time."""
    corners = np.array([[-1.3, 0.0], [1.3, 0.0], [0.1, 1.7]])
    hull, goal = ConvexHull(corners), np.array([0.0, -0.12])
    objective = Quadratic(np.eye(2), -goal)
    start = corners[2]
    rng = np.random.default_rng(0)
    A = rng.standard_normal((40, 5)) @ rng.standard_normal((5, 500))
    A += 0.1 * rng.standard_normal(A.shape)
    data = LeastSquares(A, 2 * A[:, :10].mean(axis=1) + rng.standard_normal(40))
    methods = {"fw": GREY, "away": ORANGE, "blended-pairwise": PURPLE, "di-pairwise": BLUE,
               "fully-corrective": GREEN}  # fmt: skip
    with drawing():
        figure, (left, right) = plt.subplots(1, 2, figsize=(8.6, 3.5), layout="constrained")
        left.fill(*corners.T, color=BLUE, alpha=0.08, linewidth=0)
        left.plot(*np.vstack([corners, corners[:1]]).T, color=MUTED, linewidth=1.1)
        for radius in (0.3, 0.6, 0.9, 1.2, 1.5):
            left.add_patch(plt.Circle(goal, radius, fill=False, color=MUTED, lw=0.5, alpha=0.6))
        for method, colour, width in (("fw", GREY, 1.1), ("away", ORANGE, 2.0)):
            path = _Path()
            minimize(objective, hull, x0=start, method=method, tol=1e-4, max_iter=60,
                     callback=path)  # fmt: skip
            left.plot(*np.array(path.points).T, ".-", color=colour, linewidth=width, label=method)
        left.plot(0.0, 0.0, "*", color=GREEN, markersize=13, zorder=5)
        left.set(title="Corner to corner", xlim=(-1.5, 1.5), ylim=(-0.35, 1.85))
        left.legend(loc="upper left")
        bare(left)
        for method, colour in methods.items():
            runs = [  # the first compiles
                minimize(data, Simplex(500), method=method, tol=0.0, rtol=1e-6, max_iter=10**6,
                         time_limit=1.0) for _ in range(4)
            ]  # fmt: skip
            result = min(runs, key=lambda run: run.seconds)
            gap = result.trace["gap"].astype(float) / result.value
            some = np.unique(np.geomspace(1, gap.size, 200).astype(int)) - 1
            known = some[gap[some] > 0]
            milliseconds = 1e3 * result.trace["seconds"].astype(float)
            right.loglog(milliseconds[known], gap[known], color=colour, label=method)
        right.set(title="Simplex, 40 x 500, correlated", xlabel="milliseconds")
        right.set_ylabel("relative gap")
        right.set_ylim(1e-7, 1e3)
        right.legend()
        return save(figure, "minimize")


def domains() -> Path:
    """Domains as their oracles see them: the outline, a direction, and the oracle's answer."""
    rng = np.random.default_rng(4)
    plane = np.linalg.qr(np.array([[1.0, -1.0, 0.0], [1.0, 1.0, -2.0]]).T)[0]
    shapes: tuple[tuple[str, Any, Any], ...] = (
        ("Simplex(3)", Simplex(3), plane),
        ("CappedSimplex(3, 1, 0.6)", CappedSimplex(3, 1.0, cap=0.6), plane),
        ("Box", Box(np.zeros(2), np.array([1.3, 1.0])), np.eye(2)),
        ("L1Ball(2)", L1Ball(2), np.eye(2)),
        ("Ball(2)", Ball(2), np.eye(2)),
        ("ConvexHull", ConvexHull(rng.standard_normal((25, 2))), np.eye(2)),
    )
    down = np.array([np.cos(-2.0), np.sin(-2.0)])  # where the objective falls
    with drawing():
        figure, axes = plt.subplots(1, 6, figsize=(8.6, 1.9), layout="constrained")
        for ax, (name, domain, basis) in zip(axes, shapes, strict=True):
            turn = np.linspace(0, 2 * np.pi, 181)
            directions = np.column_stack([np.cos(turn), np.sin(turn)])
            corners = [basis.T @ dense(domain.lmo(-basis @ way)) for way in directions]
            outline = _distinct(np.array(corners))
            ax.fill(*outline.T, color=BLUE, alpha=0.14, linewidth=0)
            ax.plot(*outline.T, color=BLUE, linewidth=1.3)
            middle, size = outline[:-1].mean(axis=0), np.ptp(outline, axis=0).max()
            answer = basis.T @ dense(domain.lmo(-basis @ down))
            ax.annotate(
                "", middle + 0.42 * size * down, middle,
                arrowprops={"arrowstyle": "->", "color": MUTED, "linewidth": 1.2},
            )  # fmt: skip
            ax.plot(*answer, "o", color=ORANGE, markersize=6, zorder=5)
            ax.set_title(name, fontsize=8, loc="center", weight="normal")
            bare(ax)
            for line in (*ax.lines, *ax.patches):
                line.set_clip_on(False)
        return save(figure, "domains")


def choice() -> Path:
    """Validation errors of models at many C, and the bound below them."""
    X, y = load_breast_cancer(return_X_y=True)
    X = StandardScaler().fit_transform(X)
    found = select_C(
        MulticlassSVC(random_state=0), X[::2], y[::2], X[1::2], y[1::2], (0.001, 10), within=3
    )
    grid = np.geomspace(0.001, 10, 4000)
    with drawing():
        figure, ax = plt.subplots(figsize=(8.6, 2.8), layout="constrained")
        ax.fill_between(grid, found.lower_bound(grid), color=BLUE, alpha=0.2, linewidth=0)
        ax.plot(grid, found.lower_bound(grid), color=BLUE, linewidth=1, label="proven: no fewer")
        errors = [(model.predict(X[1::2]) != y[1::2]).sum() for model in found.estimators]
        ax.semilogx(found.Cs, errors, "o", color=ORANGE, markersize=3, label="models")
        ax.axhline(found.least_errors, color=MUTED, linewidth=1, linestyle="--")
        ax.plot(found.C, found.errors, "*", color=GREEN, markersize=13, label="the choice")
        ax.set(
            title=f"No C makes fewer than {found.least_errors} errors, the best {found.errors}",
            xlabel="C", ylabel="validation errors", ylim=(0, None),
        )  # fmt: skip
        ax.legend(loc="upper left", ncols=3)
        return save(figure, "choice")


def probe() -> Path:
    """Errors of ten probes over four decades of C, and what is proven of each."""
    X, y = load_digits(return_X_y=True)
    Cs = np.logspace(-1, 3, 10) / (X**2).sum(axis=1).mean()
    path = regularization_path(
        MulticlassSVC(loss="softmax", tol=0.01, random_state=0), X[:1200], y[:1200], Cs
    )
    errors = np.array([top_k_errors(model, X[1200:], y[1200:], 5) for model in path.estimators])
    with drawing():
        figure, (left, right) = plt.subplots(1, 2, figsize=(8.6, 2.8), layout="constrained")
        left.semilogx(path.values, errors[:, 0], "o-", markersize=4, label="first guess")
        left.semilogx(path.values, errors[:, 4], "s-", markersize=4, label="five guesses")
        best = int(errors[:, 0].argmin())
        left.plot(path.values[best], errors[best, 0], "*", color=GREEN, markersize=13)
        left.set(
            title="Validation error", xlabel="C", ylabel="share of the examples", ylim=(0, None)
        )
        left.legend()
        right.loglog(path.values, path.column("relative_gap_"), "o-", color=MUTED, markersize=4)
        right.axhline(0.01, color=MUTED, linewidth=1, linestyle="--")
        right.set(title="Proven gap: asked for 0.01", xlabel="C")
        return save(figure, "probe")


PICTURES = (
    certificate, multiclass, kernel, one_class, structured, boosting, minimise, domains, choice,
    probe,
)  # fmt: skip
