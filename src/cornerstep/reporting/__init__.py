"""Reports: one HTML page that opens from disk and needs no network.

``report(estimator, X, y)`` says what was trained, how good it is proven to be, how it got there and
what it does on the data.  :func:`write_page` puts several models on one page.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from cornerstep.core.output import replacing_text
from cornerstep.reporting.page import page
from cornerstep.reporting.sections import Section, section

__all__ = ["Section", "report", "section", "write_page"]


def report(
    estimator: Any,
    X: Any,
    y: Any = None,
    path: str | os.PathLike[str] | None = None,
    *,
    title: str | None = None,
    data_name: str = "the data given",
    feature_names: Sequence[str] | None = None,
) -> str:
    """A page about a trained model, as HTML that stands alone.

    Parameters
    ----------
    estimator : fitted estimator, or pipeline that ends in one
    X, y
        Data to measure errors, confusions and margins on: held-out data, or the training data.
        Models of one class need no y.
    path : path-like, optional
        Where to write the page.
    title : str, optional
        By default the name of the estimator.
    data_name : str
        What the page calls the data.
    feature_names : sequence of str, optional
        By default ``feature_names_in_``, or numbers.

    Returns
    -------
    str
        The page.
    """
    part = section(estimator, X, y, title=title, data_name=data_name, feature_names=feature_names)
    text = page(part.title, [part])
    if path is not None:
        _write(text, path)
    return text


def write_page(title: str, sections: Sequence[Section], path: str | os.PathLike[str]) -> None:
    """Write a page with a section for each model.

    Parameters
    ----------
    title : str
    sections : sequence of Section
    path : path-like
    """
    _write(page(title, list(sections)), path)


def _write(text: str, path: str | os.PathLike[str]) -> None:
    with replacing_text(path) as file:
        file.write(text)
