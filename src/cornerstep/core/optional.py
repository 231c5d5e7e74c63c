"""Packages that only some calls need: where one is missing, the error says how to get it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

_EXTRAS = {"matplotlib": "plot", "onnx": "onnx", "pandas": "plot", "torch": "torch"}


@contextmanager
def optional_import() -> Iterator[None]:
    """Put around an import of such a package."""
    try:
        yield
    except ModuleNotFoundError as missing:
        name = (missing.name or "").partition(".")[0]
        if name not in _EXTRAS:
            raise
        how = f"pip install {name}, or 'cornerstep[{_EXTRAS[name]}]'"
        raise ModuleNotFoundError(f"this needs {name}: {how}", name=name) from None
