"""The picture of the architecture page: the packages, and the way of data through a fit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
from matplotlib.patches import FancyBboxPatch

from pictures.style import BLUE, GREEN, GREY, INK, MUTED, ORANGE, PURPLE, bare, drawing, save

#: The layers from top to bottom: colour, packages, what happens to data there.
LAYERS = (
    (GREY, ("cli",), "a file becomes a table, a name an estimator"),
    (GREY, ("reporting", "files"), "on the way back: a page, a model file, a graph"),
    (BLUE, ("multiclass", "kernel_svm", "structured", "boosting"), "parameters, problem, training"),
    (PURPLE, ("learning",), "labels by number, weights, kernels; the protocol"),
    (PURPLE, ("data",), "arrays, rows on disk or on a cluster: blocks"),
    (GREEN, ("optimiser",), "the loop: look, move, certify"),
    (GREEN, ("domains",), "oracles: the best vertex, faces, projections"),
    (GREY, ("core",), "vectors, matrices, rounding, compiled code"),
)
_WIDTH, _LEFT = 5.4, 1.0


def house() -> Path:
    """Layers of packages; data goes down through them, a model and its certificate come back."""
    with drawing():
        figure, ax = plt.subplots(figsize=(8.6, 4.6), layout="constrained")
        bare(ax)
        ax.set(xlim=(-0.9, 11.6), ylim=(-len(LAYERS) + 0.3, 1.0), aspect="auto")
        for row, (colour, packages, words) in enumerate(LAYERS):
            for place, package in enumerate(packages):
                _room(ax, -row, colour, package, place, len(packages))
            ax.text(_LEFT + _WIDTH + 0.75, -row, words, color=INK, va="center", fontsize=9)
        bottom = -len(LAYERS) + 0.75
        _arrow(ax, _LEFT - 0.35, 0.4, bottom, ORANGE)
        _arrow(ax, _LEFT + _WIDTH + 0.35, bottom, 0.4, BLUE)
        style: Any = {"ha": "center", "fontsize": 9.5, "fontweight": "bold"}
        ax.text(_LEFT - 0.35, 0.62, "data in", color=ORANGE, **style)
        ax.text(_LEFT + _WIDTH + 0.35, 0.62, "model and certificate out", color=BLUE, **style)
        ax.text(
            -0.6, (0.4 + bottom) / 2, "imports point down, never up", color=MUTED, rotation=90,
            va="center", ha="center", fontsize=9,
        )  # fmt: skip
        return save(figure, "architecture")


def _room(ax: Any, height: float, colour: str, name: str, place: int, of: int) -> None:
    """One package: a box in its layer."""
    width = (_WIDTH - 0.12 * (of - 1)) / of
    left = _LEFT + place * (width + 0.12)
    box = FancyBboxPatch(
        (left, height - 0.32), width, 0.64, boxstyle="round,pad=0,rounding_size=0.1",
        facecolor=colour, alpha=0.16, edgecolor=colour, linewidth=1.2,
    )  # fmt: skip
    ax.add_patch(box)
    ax.text(left + width / 2, height, name, color=INK, ha="center", va="center", fontsize=9.5)


def _arrow(ax: Any, x: float, start: float, end: float, colour: str) -> None:
    ax.annotate(
        "", (x, end), (x, start),
        arrowprops={"arrowstyle": "-|>", "color": colour, "linewidth": 2.2},
    )  # fmt: skip
