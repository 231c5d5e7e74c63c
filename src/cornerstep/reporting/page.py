"""The page around the sections: style, script, navigation."""

from __future__ import annotations

import html
from datetime import date
from importlib.resources import files
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cornerstep.reporting.sections import Section


def page(title: str, sections: list[Section]) -> str:
    """One HTML document with everything in it.

    Parameters
    ----------
    title : str
    sections : list of Section

    Returns
    -------
    str
    """
    from cornerstep.core.version import __version__

    room = files("cornerstep.reporting")
    style = (room / "page.css").read_text(encoding="utf-8")
    script = (room / "page.js").read_text(encoding="utf-8")
    several = len(sections) > 1
    links = "".join(
        f'<li><a href="#model-{k}">{html.escape(part.title)}</a></li>'
        for k, part in enumerate(sections, start=1)
    )
    navigation = f'<nav aria-label="Models"><ul>{links}</ul></nav>' if several else ""
    heading = f"<h1>{html.escape(title)}</h1>" if several else ""
    tag = "h2" if several else "h1"
    articles = "".join(
        f'<article id="model-{k}" aria-labelledby="title-{k}">'
        f'<{tag} id="title-{k}">{html.escape(part.title)}</{tag}>{part.body}</article>'
        for k, part in enumerate(sections, start=1)
    )
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f"<title>{html.escape(title)}</title>"
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<link rel="icon" href="data:,"><style>{style}</style></head>\n<body>'
        '<a class="skip" href="#main">To the content</a>'
        f'<header>{heading}{navigation}</header>\n<main id="main">{articles}</main>\n'
        f"<footer>Made by cornerstep {__version__} on {date.today():%d %B %Y}. "
        "A certificate is the duality gap, recomputed at the returned model from the data: "
        "a proof of how much better any other model could be."
        f"</footer><script>{script}</script></body></html>\n"
    )
