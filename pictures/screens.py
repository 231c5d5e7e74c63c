"""Pictures of what a user sees: a terminal, and a report in a browser."""

from __future__ import annotations

import os
import pty
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.text import Text
from sklearn.datasets import load_digits

from pictures.style import FOLDER

_COMMAND = (
    "fit digits.csv --target digit --loss top-k -k 3 --holdout 0.2 --top-k 3 --tol 1e-6 "
    "-o digits.cornerstep --report digits.html"
)
_WIDTH = 92
_BROWSERS = ("chromium", "chromium-browser", "google-chrome")


def terminal() -> list[Path]:
    """A run of ``cornerstep fit`` in a terminal: the live display half way, and how it ended."""
    with tempfile.TemporaryDirectory() as folder:
        X, y = load_digits(return_X_y=True)
        heading = ",".join([*(f"p{k}" for k in range(64)), "digit"])
        table = np.column_stack([X, y])
        np.savetxt(
            Path(folder) / "digits.csv", table, "%g", delimiter=",", header=heading, comments=""
        )
        said = _typed(_COMMAND.split(), folder)
    frames = re.findall(r"\x1b\[1m\w+, \w+\x1b\[0m  iteration(?:(?!\x1b\[2K).)*?left", said, re.S)
    end = re.sub(r"\x1b\[(?:\?25[lh]|\d*[AK])", "", said.rpartition("\x1b[?25h")[2])
    console = Console(record=True, width=_WIDTH, file=open(os.devnull, "w"), highlight=False)  # noqa: SIM115
    first, second = _COMMAND.split(" --tol")
    console.print(f"[bold green]$[/] cornerstep {first} \\\n      --tol{second}")
    for part in [frames[len(frames) // 2], "...", end.strip()] if frames else [end.strip()]:
        console.print(Text.from_ansi(part.replace("\r", "")))
    svg = console.export_svg(title="cornerstep")
    svg = re.sub(r"@font-face \{.*?\}", "", svg, flags=re.S)  # fonts from elsewhere
    svg = svg.replace("Fira Code", "ui-monospace, Menlo, Consolas, DejaVu Sans Mono")
    file = FOLDER / "terminal.svg"
    file.write_text("\n".join(line.rstrip() for line in svg.splitlines()) + "\n", encoding="utf-8")
    return [file]


def _typed(arguments: list[str], folder: str) -> str:
    """What a terminal receives from a command."""
    here, there = pty.openpty()
    environment = dict(os.environ, COLUMNS=str(_WIDTH), TERM="xterm-256color")
    command = [sys.executable, "-m", "cornerstep", *arguments]
    said = bytearray()
    with subprocess.Popen(
        command, cwd=folder, env=environment, stdin=there, stdout=there, stderr=there
    ):
        os.close(there)
        try:
            while part := os.read(here, 65536):
                said.extend(part)
        except OSError:  # the other end is closed
            pass
    os.close(here)
    return said.decode()


def report() -> list[Path]:
    """The first screen of the demo's report, light and dark; needs Chromium."""
    from PIL import Image

    from cornerstep.cli import demo

    browser = next(filter(None, map(shutil.which, _BROWSERS)), None)
    if browser is None:
        print("report: no Chromium here, the pictures stay as they are")
        return []
    files = []
    with tempfile.TemporaryDirectory() as folder:
        demo.main([folder])
        for scheme, setting in (("light", "1"), ("dark", "0")):
            shot = Path(folder) / f"{scheme}.png"
            subprocess.run(
                [browser, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
                 f"--blink-settings=preferredColorScheme={setting}", "--window-size=1060,860",
                 f"--screenshot={shot}", f"file://{folder}/index.html"],
                check=True, capture_output=True, timeout=120,
            )  # fmt: skip
            file = FOLDER / f"report_{scheme}.png"
            Image.open(shot).convert("RGB").quantize(40).save(file, optimize=True)
            files.append(file)
    return files
