"""A hook of mkdocs: the Python blocks of a page run when the site is built, and show what they say.

Blocks of a page share their names, top to bottom.  Below a block comes what it printed, the value
of its last line if that is an expression, and the figures that it drew.  A block that fails ends
the build.
"""

from __future__ import annotations

import ast
import base64
import os
import re
import sys
import tempfile
import warnings
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

import matplotlib.pyplot as plt

from pictures.style import drawing, save

BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_MOST_LINES = 14


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Called by mkdocs for every page."""
    if not BLOCK.search(markdown):
        return markdown
    names: dict[str, Any] = {"__name__": "__docs__"}
    here = os.getcwd()
    with tempfile.TemporaryDirectory() as folder, drawing(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        plt.rcParams["figure.figsize"] = (5.6, 3.2)
        plt.rcParams["figure.constrained_layout.use"] = True
        os.chdir(folder)
        try:
            return BLOCK.sub(lambda block: block[0] + _below(block[1], names, page), markdown)
        finally:
            os.chdir(here)


def _below(code: str, names: dict[str, Any], page: Any) -> str:
    said = StringIO()
    tree = ast.parse(code, str(page.file.src_path))
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    with redirect_stdout(said):
        exec(compile(tree, str(page.file.src_path), "exec"), names)
        if isinstance(last, ast.Expr):
            value = eval(compile(ast.Expression(last.value), "last line", "eval"), names)
            if value is not None and not plt.get_fignums():
                print(repr(value))
    lines = said.getvalue().rstrip().splitlines()
    more = ["..."] if len(lines) > _MOST_LINES else []
    shown = "\n".join(line[:110] for line in lines[:_MOST_LINES] + more)
    return (f"\n\n```text\n{shown}\n```" if shown else "") + "".join(map(_image, plt.get_fignums()))


def _image(number: int) -> str:
    with tempfile.TemporaryDirectory() as folder:
        svg = save(plt.figure(number), "figure", Path(folder)).read_bytes()
    data = base64.b64encode(svg).decode("ascii")
    return f'\n\n<img alt="What the code above draws" src="data:image/svg+xml;base64,{data}">\n'
