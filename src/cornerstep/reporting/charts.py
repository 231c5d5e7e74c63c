"""Charts as HTML: zoomable lines drawn by the page's script, bars, histograms and heat maps."""

from __future__ import annotations

import html
import json
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from cornerstep.core.types import FloatArray

_POINTS = 400  # of a line
_COLOURS = {"bound": "bound", "edge": "bound", "gap": "gap"}  # as in the documents


def figure(title: str, caption: str, body: str, *, wide: bool = False) -> str:
    """A chart with its heading and what it shows."""
    kind = ' class="wide"' if wide else ""
    return (
        f"<figure{kind}><h3>{html.escape(title)}</h3>"
        f"<figcaption>{html.escape(caption)}</figcaption>{body}</figure>"
    )


def lines(
    label: str,
    x: dict[str, FloatArray],
    series: dict[str, FloatArray],
    *,
    log: bool = False,
    target: float | None = None,
    near: bool = False,
) -> str:
    """Lines against one of several x axes, thinned to what a screen can show.

    With ``near`` what they span in their second half is shown first.
    """
    n = len(next(iter(x.values())))
    chosen = np.arange(n)
    if n > _POINTS:
        chosen = np.unique(np.linspace(0, n - 1, _POINTS).astype(int))
    data = {
        "log": log,
        "near": _late_span([np.asarray(values, float) for values in series.values()], near),
        "target": target if target and math.isfinite(target) else None,
        "x": {name: np.asarray(values, float)[chosen].tolist() for name, values in x.items()},
        "series": [
            {
                "name": name,
                "kind": _COLOURS.get(name, "value"),
                "y": [_number(v) for v in np.asarray(values, float)[chosen]],
            }
            for name, values in series.items()
        ],
    }
    keys = "".join(
        f'<span class="key"><i class="{_COLOURS.get(name, "value")}"></i>{html.escape(name)}</span>'
        for name in series
    )
    axes = "".join(
        f'<button type="button" data-axis="{name}" aria-pressed="{str(k == 0).lower()}">by {name}'
        "</button>"
        for k, name in enumerate(x)
    )
    tools = "".join(
        f'<button type="button" data-act="{act}" aria-label="{said}">{sign}</button>'
        for act, said, sign in (
            ("in", "Zoom in", "+"), ("out", "Zoom out", "&minus;"), ("left", "Move left", "&larr;"),
            ("right", "Move right", "&rarr;"), ("all", "Show all", "all"),
        )
    )  # fmt: skip
    text = json.dumps(data, allow_nan=False).replace("<", "\\u003c")
    return (
        f'<div class="chart"><div>{keys}</div>'
        f'<div class="plot" tabindex="0" role="img" aria-label="{html.escape(label)}. '
        'Plus and minus zoom, arrows move, 0 shows all."></div>'
        f'<div class="tools">{axes}{tools}<output aria-live="polite"></output></div>'
        f'<script type="application/json">{text}</script></div>'
    )


def _late_span(series: list[FloatArray], wanted: bool) -> list[float] | None:
    """From the least to the largest value in the second half of the lines, if there are some."""
    late = np.concatenate([values[len(values) // 2 :] for values in series])
    late = late[np.isfinite(late)]
    return [float(late.min()), float(late.max())] if wanted and late.size > 4 else None


def shortened(name: str, most: int) -> str:
    """A name of at most so many characters, without its middle."""
    half = (most - 1) // 2
    return name if len(name) <= most else f"{name[: most - 1 - half]}…{name[-half:]}"


def told_apart(names: Sequence[str], most: int) -> list[str]:
    """Names of at most so many characters: of long ones what all share is left out first."""
    if len(set(names)) < 2 or max(map(len, names)) <= most:
        return [shortened(name, most) for name in names]
    front = _shared(names)
    back = _shared([name[front:][::-1] for name in names])
    return [
        shortened(f"{'…' * (front > 0)}{name[front : len(name) - back]}{'…' * (back > 0)}", most)
        for name in names
    ]


def _shared(names: Sequence[str]) -> int:
    """How many characters all begin with: as many as the first and the last in order."""
    first, last = min(names), max(names)
    ends = (k for k, (a, b) in enumerate(zip(first, last, strict=False)) if a != b)
    return next(ends, min(len(first), len(last)))


def unit_of(values: FloatArray) -> float:
    """The power of ten in whose multiples the largest number has two digits."""
    largest = float(np.abs(values).max(initial=0.0))
    return 10.0 ** (math.floor(math.log10(largest)) - 1) if 1e-300 < largest < math.inf else 1.0


def _number(value: float) -> float | None:
    return float(f"{value:.8g}") if math.isfinite(value) else None


def bars(
    label: str,
    names: Sequence[str],
    values: Sequence[float] | FloatArray,
    form: str = ".3g",
    unit: str = "",
) -> str:
    """Horizontal bars, negative ones in another colour."""
    largest = max((abs(v) for v in values), default=0.0) or 1.0
    room, height = 160, 22
    parts = []
    for k, (name, value) in enumerate(zip(names, values, strict=True)):
        y, width = k * height, 200 * abs(value) / largest
        parts.append(
            f'<text x="{room - 6}" y="{y + 15}" text-anchor="end">'
            f"{html.escape(shortened(name, 25))}<title>{html.escape(name)}</title></text>"
            f'<rect class="bar{" neg" if value < 0 else ""}" x="{room}" y="{y + 4}" rx="2" '
            f'width="{max(width, 1):.1f}" height="{height - 7}"/>'
            f'<text x="{room + width + 6:.1f}" y="{y + 15}">{value:{form}}{unit}</text>'
        )
    return _svg(label, 420, height * len(values) + 4, "".join(parts))


def histogram(label: str, values: FloatArray, mark: float, mark_name: str) -> str:
    """How values are spread, with a line at ``mark``; values below 0 in another colour."""
    low, high = float(min(values.min(), mark)), float(max(values.max(), mark))
    if not high > low:
        low, high = low - 0.5, high + 0.5
    edges = np.linspace(low, high, 41)
    if low < 0 < high:  # an edge at 0, so that errors do not share a bar with the rest
        edges = edges - edges[np.abs(edges).argmin()]
        edges = np.append(edges, edges[-1] + edges[1] - edges[0]) if edges[-1] < high else edges
        edges = np.append(edges[0] - (edges[1] - edges[0]), edges) if edges[0] > low else edges
    counts, _ = np.histogram(values, edges)
    width, height, floor = 420, 200, 170

    def x(value: float) -> float:
        return float(10 + (value - edges[0]) / (edges[-1] - edges[0]) * (width - 20))

    top = counts.max() or 1
    parts = [
        f'<rect class="bar{" neg" if right <= 1e-12 else ""}" x="{x(left) + 0.5:.1f}" '
        f'width="{max(x(right) - x(left) - 1, 0.5):.1f}" y="{floor - 150 * n / top:.1f}" '
        f'height="{150 * n / top:.1f}"/>'
        for n, left, right in zip(counts, edges[:-1], edges[1:], strict=True)
        if n
    ]
    parts.append(f'<line class="axis" x1="10" x2="{width - 10}" y1="{floor}" y2="{floor}"/>')
    parts.append(
        f'<line class="mark" x1="{x(mark):.1f}" x2="{x(mark):.1f}" y1="14" y2="{floor}"/>'
        f'<text x="{min(max(x(mark), 60), width - 60):.1f}" y="10" text-anchor="middle">'
        f"{html.escape(mark_name)}</text>"
    )
    for tick in _ticks(float(edges[0]), float(edges[-1])):
        parts.append(
            f'<text x="{min(max(x(tick), 18), width - 18):.1f}" y="{height - 12}" '
            f'text-anchor="middle">{tick:.2g}</text>'
        )
    return _svg(label, width, height, "".join(parts))


def _ticks(low: float, high: float) -> FloatArray:
    """About five round numbers between two."""
    raw = (high - low) / 5
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(f * power for f in (1, 2, 5, 10) if f * power >= raw)
    return np.round(np.arange(math.ceil(low / step), math.floor(high / step) + 1) * step, 12)


def _svg(label: str, width: int, height: int, content: str) -> str:
    return (
        f'<svg viewBox="0 0 {width} {height}" role="img" aria-label="{html.escape(label)}">'
        f"{content}</svg>"
    )


def heat(
    label: str,
    rows: Sequence[str],
    columns: Sequence[str],
    values: Any,
    form: str = ".2g",
    shades: Any = None,
) -> str:
    """A table whose cells are coloured by ``shades`` or the values, two colours by sign."""
    values = np.asarray(values, dtype=float)
    shades = values if shades is None else np.asarray(shades, dtype=float)
    largest = float(np.abs(shades).max()) or 1.0
    short = told_apart(columns, 16)
    head = "".join(f'<th scope="col">{_titled(*n)}</th>' for n in zip(columns, short, strict=True))
    longest = max(len(str(name)) for name in (*rows, *columns))
    kind, room = ("heat", 2) if longest <= 3 else ("heat long", 4)
    body = []
    short = told_apart(rows, 12)
    for name, known, row, colours in zip(rows, short, values, shades, strict=True):
        cells = "".join(
            f'<td style="background:rgba(var(--{"heat" if shade >= 0 else "neg"}),'
            f'{0.75 * abs(shade) / largest:.2f})">{_cell(v, form)}</td>'
            for v, shade in zip(row, colours, strict=True)
        )
        body.append(f'<tr><th scope="row">{_titled(name, known)}</th>{cells}</tr>')
    return (
        f'<div class="scroll" tabindex="0" role="group" aria-label="{html.escape(label)}">'
        f'<table class="{kind}" style="--n:{len(columns)};--names:{room}">'
        f"<thead><tr><td></td>{head}</tr></thead><tbody>{''.join(body)}</tbody></table></div>"
    )


def _titled(name: str, short: str) -> str:
    return f'<span title="{html.escape(name)}">{html.escape(short)}</span>'


def _cell(value: float, form: str) -> str:
    return "" if value == 0 and form == "d" else f"{int(value) if form == 'd' else value:{form}}"


def table(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """A plain table; the first column names the rows."""
    head = "".join(f'<th scope="col">{html.escape(name)}</th>' for name in columns)
    body = "".join(
        "<tr>"
        + "".join(
            f'<th scope="row">{html.escape(str(cell))}</th>'
            if k == 0
            else f"<td>{html.escape(str(cell))}</td>"
            for k, cell in enumerate(row)
        )
        + "</tr>"
        for row in rows
    )
    return (
        f'<div class="scroll"><table><thead><tr>{head}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>"
    )
