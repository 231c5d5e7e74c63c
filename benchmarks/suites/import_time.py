"""How long ``import cornerstep`` takes in a fresh interpreter, beside ``import sklearn``."""

from __future__ import annotations

import subprocess
import sys

from benchmarks.core import Answer, Benchmark, Dataset, Measures, Recorder, Row, Run, Solver

_NOTHING, _SKLEARN, _OURS = "python alone", "import sklearn", "import cornerstep"


def _python(code: str, *options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *options, "-c", code], capture_output=True, text=True, check=True
    )


def _solver(name: str, code: str) -> Solver:
    def prepare(problem: None) -> Run:
        _python(code)  # compile and bring into the file cache

        def run(record: Recorder | None) -> Answer:
            return Answer(_python(code + "\nimport sys; print(len(sys.modules))").stdout)

        return run

    return Solver(name, prepare)


def _judge(problem: None, printed: str) -> Measures:
    return {"modules": float(printed)}


def _notes(rows: list[Row]) -> list[str]:
    best = {row.solver: 1e3 * row.best for row in rows}
    lines = [
        "",
        f"import cornerstep - import sklearn = {best[_OURS] - best[_SKLEARN]:.0f} ms (minima)",
    ]
    log = _python("import sklearn, cornerstep", "-X", "importtime").stderr.splitlines()
    own: dict[str, float] = {}
    after = next(i for i, line in enumerate(log) if line.split("|")[-1].strip() == "sklearn")
    for line in log[after + 1 :]:
        microseconds, _, module = line.removeprefix("import time:").split("|")
        package = ".".join(module.strip().split(".")[:2])
        own[package] = own.get(package, 0.0) + float(microseconds) / 1e3
    lines.append(f"import cornerstep once sklearn is there: {sum(own.values()):.0f} ms, of which")
    for package, cost in sorted(own.items(), key=lambda item: -item[1])[:8]:
        lines.append(f"  {package:<32}{cost:6.1f}")
    return lines


BENCHMARK = Benchmark(
    name="import",
    title="time to import in a fresh interpreter",
    datasets=(Dataset("fresh interpreter", lambda: None),),
    solvers=(
        _solver(_NOTHING, ""),
        _solver(_SKLEARN, _SKLEARN),
        _solver(_OURS, _OURS),
    ),
    judge=_judge,
    baseline=_SKLEARN,
    repeat=5,
    patience=30.0,
    shown=("modules",),
    notes=_notes,
)
