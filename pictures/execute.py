"""The Python blocks of a page run when the site is built, and show what they say.

Each block runs alone, as a reader would paste it.  Below it comes what it printed, the values of
lines that are expressions, and the figures that it drew.  A block that fails ends the build.
"""

from __future__ import annotations

import ast
import base64
import os
import re
import tempfile
import warnings
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np

from pictures.style import ON_PAGES, drawing, save

BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_MOST_LINES = 14
_OPTIONAL = ("torch",)  # gigabytes on some systems: what builds the site need not have it


def executed(markdown: str, page: str) -> str:
    """A page with what its blocks say below them."""
    if not BLOCK.search(markdown):
        return markdown
    here = os.getcwd()
    with tempfile.TemporaryDirectory() as folder, drawing(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        plt.rcParams.update(ON_PAGES)
        os.chdir(folder)
        try:
            return BLOCK.sub(lambda block: block[0] + _below(block[1], page), markdown)
        finally:
            os.chdir(here)


def _below(code: str, page: str) -> str:
    """Run a block; what it says, as Markdown."""
    file, said = f"{page}.md", StringIO()
    names: dict[str, Any] = {"__name__": "__docs__"}
    try:
        with redirect_stdout(said):
            _run(code, file, names)
    except ModuleNotFoundError as missing:
        if missing.name not in _OPTIONAL:
            raise
        print(f"not run: {missing.name} is not installed where this page was made", file=said)
    lines = said.getvalue().rstrip().splitlines()
    more = ["..."] if len(lines) > _MOST_LINES else []
    shown = "\n".join(line[:110] for line in lines[:_MOST_LINES] + more)
    return (f"\n\n```text\n{shown}\n```" if shown else "") + "".join(map(_image, plt.get_fignums()))


def _run(code: str, file: str, names: dict[str, Any]) -> None:
    for part in ast.parse(code, file).body:
        if not isinstance(part, ast.Expr):
            exec(compile(ast.Module([part], []), file, "exec"), names)
            continue
        value = eval(compile(ast.Expression(part.value), file, "eval"), names)
        if _is_shown(value):
            text = _words(value)
            print(f"{ast.unparse(part)}{chr(10) if chr(10) in text else ' = '}{text}")


def _is_shown(value: Any) -> bool:
    """Not estimators that were just trained, whole files, or what stands in a figure."""
    if value is None or hasattr(value, "get_params") or isinstance(value, str):
        return False
    return not type(value).__module__.startswith("matplotlib")


def _words(value: Any) -> str:
    """A value as a reader wants it: numbers to six digits, long arrays in short."""
    if isinstance(value, tuple):
        return ", ".join(map(_words, value))
    if isinstance(value, float | np.floating):
        return f"{value:.6g}"
    if isinstance(value, np.ndarray):
        return np.array2string(value, precision=4, threshold=24, edgeitems=3)
    if isinstance(value, list) and len(value) > 4:
        return f"[{', '.join(map(_words, value[:3]))}, ...], {len(value)} in all"
    return str(value)


def _image(number: int) -> str:
    with tempfile.TemporaryDirectory() as folder:
        svg = save(plt.figure(number), "figure", Path(folder)).read_bytes()
    data = base64.b64encode(svg).decode("ascii")
    return f'\n\n<img alt="What the code above draws" src="data:image/svg+xml;base64,{data}">\n'
