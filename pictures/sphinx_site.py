"""An extension of Sphinx: Markdown pages whose code has run, formulas without the network, links.

- The Python blocks of a page run when the site is built, each alone (:mod:`pictures.execute`).
- Formulas become MathML, which browsers typeset by themselves: no script, and no font to fetch.
- A public name in code font leads to its entry in the reference.
- The groups of pages are those of ``contents`` in ``docs/conf.py``.
"""

from __future__ import annotations

import os
import re
import shutil
import warnings
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
from docutils import nodes
from latex2mathml.converter import convert
from sphinx_gallery.scrapers import figure_rst

from pictures.execute import executed
from pictures.style import LOOK, ON_PAGES, save

_EXAMPLE = re.compile(r"\]\((?:\.\./)+examples/(\w+)\.\w+\)")  # a script: on the site, its page
_KINDS = ("class", "exception", "function")


def setup(app: Any) -> dict[str, bool]:
    """Called by Sphinx."""
    os.environ.setdefault("DASK_LOGGING__DISTRIBUTED", "warning")  # blocks start clusters
    app.add_config_value("contents", {}, "env", dict)
    app.add_html_math_renderer("mathml", (_inline, None), (_display, None))
    app.connect("autodoc-skip-member", _skip)
    app.connect("source-read", _read)
    app.connect("doctree-resolved", _link_names)
    app.connect("build-finished", _copy_pictures)
    return {"parallel_read_safe": False, "parallel_write_safe": True}


def _read(app: Any, page: str, source: list[str]) -> None:
    if not page.startswith("gallery/"):
        source[0] = _EXAMPLE.sub(_in_gallery, executed(source[0], page))
    if page == "index":
        for caption, pages in app.config.contents.items():
            listed = "\n".join(pages)
            source[0] += f"\n```{{toctree}}\n:hidden:\n:caption: {caption}\n\n{listed}\n```\n"


def _in_gallery(link: re.Match[str]) -> str:
    return f"](/gallery/{'index' if link[1] == 'README' else link[1]}.rst)"


def _skip(app: Any, kind: str, name: str, member: Any, skip: bool, options: Any) -> bool | None:
    """What comes from scikit-learn is described there; fields of tuples are in the signature."""
    is_field = str(getattr(member, "__doc__", "")).startswith("Alias for field number")
    return is_field or str(getattr(member, "__module__", "")).startswith("sklearn.") or None


def _copy_pictures(app: Any, error: Exception | None) -> None:
    """Those that pages name in HTML: one for light pages, one for dark."""
    if error is None:
        shutil.copytree(
            Path(app.srcdir, "pictures"), Path(app.outdir, "pictures"), dirs_exist_ok=True
        )


def _inline(writer: Any, node: nodes.Element) -> None:
    writer.body.append(_mathml(node.astext(), "inline"))
    raise nodes.SkipNode


def _display(writer: Any, node: nodes.Element) -> None:
    writer.body.append(f'<div class="formula">{_mathml(node.astext(), "block")}</div>')
    raise nodes.SkipNode


def _mathml(formula: str, display: str) -> str:
    text = convert(formula, display=display)
    if "\\" in text:  # a command that the converter does not know, left as it is
        raise ValueError(f"cannot typeset {formula}")
    return text


def _link_names(app: Any, tree: nodes.document, page: str) -> None:
    """Make links of the public names in code font, on every page."""
    known = app.env.get_domain("py").objects
    for literal in list(tree.findall(nodes.literal)):
        if isinstance(literal.parent, nodes.reference | nodes.title):
            continue
        name = re.split(r"[(\[]", literal.astext())[0].removeprefix("cornerstep.")
        entry = known.get(f"cornerstep.{name}")
        if entry is None or entry.objtype not in _KINDS:
            entry = _only(known, name)
        if entry is None or entry.docname == page:
            continue
        there = f"{app.builder.get_relative_uri(page, entry.docname)}#{entry.node_id}"
        literal.replace_self(nodes.reference("", "", literal.deepcopy(), refuri=there))


def _only(known: dict[str, Any], name: str) -> Any:
    """The one entry of that last name: of classes, since verbs such as `fit` are methods too."""
    if not re.fullmatch(r"[A-Z]\w+|\w+_\w+", name):
        return None
    found = [
        entry
        for full, entry in known.items()
        if full.endswith(f".{name}") and entry.objtype in _KINDS and not entry.aliased
    ]
    return found[0] if len(found) == 1 else None


def scrape(block: Any, variables: dict[str, Any], settings: dict[str, Any]) -> str:
    """Called by sphinx-gallery after each block of an example: the figures that it drew."""
    files = []
    for number in plt.get_fignums():
        path = Path(next(variables["image_path_iterator"]))
        files.append(str(save(plt.figure(number), path.stem, path.parent)))
    return figure_rst(files, settings["src_dir"])


def reset(settings: dict[str, Any], example: str) -> None:
    """Called by sphinx-gallery before each example."""
    plt.close("all")
    plt.rcParams.update(LOOK | ON_PAGES)
    warnings.simplefilter("ignore")  # as on pages: they name files of the machine that builds
