"""The families of attacks by name: each a module with ``attack(rng, judge)``."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

NAMES = (
    "minimize", "many", "saddle", "multiclass", "arrays", "kernel", "hulls", "structured",
    "taggers", "boosting", "choice", "certify", "files", "checkpoints", "state", "dask",
)  # fmt: skip


def attack_of(name: str) -> Callable[[Any, Any], None]:
    """The function that makes and judges one case."""
    if name not in NAMES:
        raise SystemExit(f"a family must be one of {', '.join(NAMES)}, got {name!r}")
    return import_module(f"attack.{name}_family").attack
