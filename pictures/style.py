"""How pictures look: SVG files whose colours follow the reader's light or dark setting.

matplotlib knows no colour that depends on the reader.  So it draws with stand-ins, which become CSS
variables when the file is written; a style sheet in the file gives them their two values.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from io import StringIO
from pathlib import Path
from typing import Any

import matplotlib
from cycler import cycler

matplotlib.use("Agg")
import matplotlib.pyplot as plt

FOLDER = Path(__file__).parents[1] / "docs" / "pictures"

# name: stand-in, light, dark
_COLOURS = {
    "ink": ("#010101", "#1f2328", "#e6e6e6"),
    "muted": ("#020202", "#6a737d", "#a0a7b0"),
    "grid": ("#030303", "#e3e6ea", "#3c4149"),
    "paper": ("#040404", "#ffffff", "#1e2129"),
    "blue": ("#050505", "#0b69c7", "#5fabff"),
    "orange": ("#060606", "#d4500e", "#ff9a5c"),
    "green": ("#070707", "#17845a", "#4ec98f"),
    "purple": ("#080808", "#7c4dd8", "#b99bff"),
    "grey": ("#090909", "#8a929b", "#8b949e"),
}
INK, MUTED, GRID, PAPER, BLUE, ORANGE, GREEN, PURPLE, GREY = (c[0] for c in _COLOURS.values())
SERIES = (BLUE, ORANGE, GREEN, PURPLE, GREY)

LOOK: Any = {
    "svg.fonttype": "none",
    "svg.hashsalt": "cornerstep",
    "font.size": 10,
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],
    "text.color": INK,
    "axes.edgecolor": MUTED,
    "axes.labelcolor": INK,
    "axes.titlecolor": INK,
    "axes.titlesize": 10.5,
    "axes.titlelocation": "left",
    "axes.titleweight": "bold",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.facecolor": "none",
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.prop_cycle": cycler(color=SERIES),
    "grid.color": GRID,
    "grid.linewidth": 0.7,
    "xtick.color": MUTED,
    "ytick.color": MUTED,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "figure.facecolor": "none",
    "legend.frameon": False,
    "lines.linewidth": 1.8,
}

ON_PAGES: Any = {"figure.figsize": (5.6, 3.2), "figure.constrained_layout.use": True}


def _style_sheet() -> str:
    light, dark = (
        "".join(f"--{name}:{values[k]};" for name, values in _COLOURS.items()) for k in (1, 2)
    )
    return (
        f"<style>svg{{{light}font-family:system-ui,'Segoe UI',Arial,sans-serif}}"
        f"@media(prefers-color-scheme:dark){{svg{{{dark}}}}}</style>"
    )


@contextmanager
def drawing() -> Iterator[None]:
    """Draw in this look."""
    with plt.rc_context(LOOK):
        yield


def save(figure: Any, name: str, folder: Path = FOLDER) -> Path:
    """Write a figure as ``name.svg`` and close it."""
    text = StringIO()
    with plt.rc_context(LOOK):
        figure.savefig(text, format="svg", metadata={"Date": None, "Creator": None})
    plt.close(figure)
    svg = text.getvalue()
    for colour, (stand_in, _, _) in _COLOURS.items():
        svg = svg.replace(stand_in, f"var(--{colour})")
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    svg = re.sub(r"'DejaVu Sans'[^;\"]*", "system-ui, 'Segoe UI', Arial, sans-serif", svg)
    svg = re.sub(r' (?:d|x|y)="[^"]*"', _shortened, svg)
    head, mark, rest = svg.partition("<defs>")
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"{name}.svg"
    lines = (head + _style_sheet() + mark + rest).splitlines()
    file.write_text("\n".join(line.rstrip() for line in lines) + "\n", encoding="utf-8")
    return file


def _shortened(attribute: re.Match[str]) -> str:
    """Coordinates to a tenth of a point."""
    return re.sub(r"(\d+\.\d)\d+", r"\1", attribute[0])


def bare(ax: Any) -> None:
    """No ticks, no frame: for pictures of shapes."""
    ax.set(xticks=[], yticks=[], aspect="equal")
    ax.grid(False)
    for spine in ax.spines.values():
        spine.set_visible(False)
