"""The benchmarks by name.

A new one is a module here that defines ``BENCHMARK``, or ``build(settings)`` which returns one.
"""

from __future__ import annotations

from dataclasses import replace
from importlib import import_module

from benchmarks.core import Benchmark, Settings

_MODULES = {
    "frank_wolfe": "frank_wolfe",
    "minimize": "minimize",
    "q375": "q375",
    "table1": "table1",
    "memory": "memory",
    "import": "import_time",
    "busy": "busy",
    "cold": "cold",
    "multiclass": "multiclass",
    "losses_time": "losses_time",
    "network_losses": "network_losses",
    "probe": "probe",
    "softmax": "softmax",
    "fw_iteration": "fw_iteration",
    "gpu": "gpu",
    "mcsvm_figures": "mcsvm_figures",
    "mcsvm_table1": "mcsvm_table1",
    "mcsvm_table2": "mcsvm_table2",
    "mcsvm_table3": "mcsvm_table3",
    "review_figures": "review_figures",
    "streaming": "streaming",
    "cluster": "cluster",
    "kernel": "kernel",
    "kernel_figures": "kernel_figures",
    "kernel_classes": "kernel_classes",
    "kernel_gpu": "kernel_gpu",
    "kernel_oneclass": "kernel_oneclass",
    "kernel_regression": "kernel_regression",
    "structured_ocr": "structured_ocr",
    "structured_solvers": "structured_solvers",
    "structured_passes": "structured_passes",
    "structured_conll": "structured_conll",
    "structured_sets": "structured_sets",
    "boosting": "boosting_table4",
    "boosting_table3": "boosting_table3",
    "boosting_figures": "boosting_figures",
    "boosting_noise": "boosting_noise",
    "boosting_worst_case": "boosting_worst_case",
    "boosting_rounds": "boosting_rounds",
}

NAMES = tuple(_MODULES)


def load(name: str, settings: Settings = Settings()) -> Benchmark:  # noqa: B008 - frozen
    """The benchmark called ``name``, with the datasets that ``settings.only`` keeps.

    A word that is the whole name of a dataset keeps that one alone.
    """
    module = import_module(f"benchmarks.suites.{_MODULES[name]}")
    benchmark: Benchmark = module.build(settings) if hasattr(module, "build") else module.BENCHMARK
    if not settings.only:
        return benchmark
    names = {dataset.name for dataset in benchmark.datasets}
    kept = tuple(
        dataset for dataset in benchmark.datasets
        if dataset.name in settings.only
        or any(word in dataset.name for word in settings.only if word not in names)
    )  # fmt: skip
    return replace(benchmark, datasets=kept)
