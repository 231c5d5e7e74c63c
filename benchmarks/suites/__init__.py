"""The benchmarks by name.  A new one is a module here that defines ``BENCHMARK``."""

from __future__ import annotations

from importlib import import_module

from benchmarks.core import Benchmark

_MODULES = {
    "frank_wolfe": "frank_wolfe",
    "q375": "q375",
    "table1": "table1",
    "memory": "memory",
    "import": "import_time",
}

NAMES = tuple(_MODULES)


def load(name: str) -> Benchmark:
    """The benchmark called ``name``."""
    return import_module(f"benchmarks.suites.{_MODULES[name]}").BENCHMARK
