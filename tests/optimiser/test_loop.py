"""The loop: why it stops, what it returns then, its trace, and what it shows."""

from __future__ import annotations

import signal
import threading
import time
from typing import Any

import matplotlib as mpl
import numpy as np
import pytest

from cornerstep import Status, minimize
from cornerstep.domains import Birkhoff, NuclearNormBall, Simplex
from cornerstep.objectives import LeastSquares, Quadratic, Smooth
from cornerstep.optimiser import Iterate, Trace
from cornerstep.optimiser.loop import Look, Move, Stopping, run
from support.optimiser_problems import problem

TARGET = np.array([0.5, 0.35, -0.3, 0.2, 0.1])
DOMAIN = Simplex(5)
OBJECTIVE = LeastSquares(np.eye(5), TARGET)
BEST = OBJECTIVE.at(DOMAIN.project(TARGET)).value


def _holds(result: Any) -> None:
    """The point is inside and its certificate true."""
    gradient = result.x - TARGET
    gap = gradient @ result.x - gradient.min()
    assert DOMAIN.contains(result.x, 1e-12)
    assert max(gap, 0.0) <= result.gap + 1e-16
    assert result.gap == pytest.approx(max(gap, 0.0), abs=1e-13)
    assert result.value == pytest.approx(0.5 * gradient @ gradient, abs=1e-14)
    assert result.value - BEST <= result.gap + 1e-14
    assert result.lower_bound <= BEST + 1e-14


def _smooth(hook: Any = lambda: None, **options: Any) -> Smooth:
    """The same objective, calling ``hook`` with every gradient."""

    def gradient(x: np.ndarray) -> np.ndarray:
        hook()
        return x - TARGET

    return Smooth(lambda x: 0.5 * (x - TARGET) @ (x - TARGET), gradient, lipschitz=1.0, **options)


def test_solved() -> None:
    result = minimize(OBJECTIVE, DOMAIN)
    assert result.status is Status.SOLVED
    assert result.success
    assert result.message == "The duality gap is within the tolerance."
    assert str(result.status) == "solved"
    assert result.n_iter == len(result.trace) - 1
    assert result.seconds > 0
    _holds(result)


class _Rounded:
    """A solver whose gap halves with every move, down to a rounding term that stays."""

    monotone = False
    extra_columns: tuple[str, ...] = ()

    def __init__(self, rounding: float) -> None:
        self.point, self.rounding = 0, rounding

    def look(self) -> Look:
        return Look(1.0, 0.5**self.point + self.rounding, rounding=self.rounding)

    def move(self) -> Move:
        self.point += 1
        return Move(1.0, "halve")

    def certify(self, point: int) -> Look:
        self.point = point
        return self.look()


@pytest.mark.parametrize(
    ("rounding", "tol", "status", "n_iter"),
    [(0.0, 0.25, "solved", 2), (0.125, 0.25, "solved", 3), (0.125, 0.2, "precision limit", 3),
     (0.125, 0.0, "precision limit", 3), (0.5, 0.25, "precision limit", 1)],
)  # fmt: skip
def test_rounding_belongs_to_the_gap(rounding: float, tol: float, status: str, n_iter: int) -> None:
    outcome = run(_Rounded(rounding), Stopping(tol))
    assert (outcome.status.value, outcome.n_iter) == (status, n_iter)
    assert outcome.look.gap == 0.5**n_iter + rounding


@pytest.mark.parametrize("max_iter", [0, 1, 7])
def test_iteration_limit(max_iter: int) -> None:
    result = minimize(OBJECTIVE, DOMAIN, method="fw", max_iter=max_iter)
    assert result.status is Status.ITERATION_LIMIT
    assert result.n_iter == max_iter
    assert len(result.trace) == max_iter + 1
    assert not result.success
    _holds(result)


def test_time_limit() -> None:
    at_once = minimize(OBJECTIVE, DOMAIN, method="fw", time_limit=0)
    assert at_once.status is Status.TIME_LIMIT
    assert at_once.n_iter == 0
    _holds(at_once)
    slow = _smooth(lambda: time.sleep(0.002))
    start = time.perf_counter()
    result = minimize(slow, DOMAIN, method="fw", step="short", time_limit=0.05, tol=0.0)
    assert result.status is Status.TIME_LIMIT
    assert 0.05 <= result.seconds <= time.perf_counter() - start < 10.0
    assert result.n_iter > 0
    _holds(result)


def test_the_last_certificate_is_within_the_limit() -> None:
    """A solver that says how long it takes is told to end so much earlier."""

    class Slow:
        monotone, point, closing = False, 0.0, 0.0
        extra_columns: tuple[str, ...] = ()

        def look(self) -> Look:
            return Look(1.0, 1.0)

        def move(self) -> Move:
            self.closing = 1000.0
            return Move(1.0, "fw")

        def certify(self, point: float) -> Look:
            return Look(1.0, 1.0)

    outcome = run(Slow(), Stopping(0.0, time_limit=900.0))
    assert outcome.status is Status.TIME_LIMIT
    assert outcome.n_iter == 1
    outcome = run(Slow(), Stopping(0.0, max_iter=3))
    assert outcome.status is Status.ITERATION_LIMIT


def test_stopped_by_the_callback() -> None:
    seen: list[Iterate] = []

    def callback(iterate: Iterate) -> bool:
        seen.append(iterate)
        return iterate.iteration == 4

    result = minimize(OBJECTIVE, DOMAIN, method="fw", callback=callback)
    assert result.status is Status.STOPPED
    assert [iterate.iteration for iterate in seen] == [0, 1, 2, 3, 4]
    np.testing.assert_allclose(result.x, seen[-1].x, rtol=1e-15)  # its sum made exactly 1
    assert (seen[-1].value, seen[-1].gap) == (result.trace["value"][-1], result.trace["gap"][-1])
    assert DOMAIN.contains(seen[0].x)
    _holds(result)


def test_what_a_callback_keeps_is_not_changed_later() -> None:
    kept: list[tuple[np.ndarray, np.ndarray]] = []
    for method in ("fw", "away", "di-pairwise", "di-away-schedule"):
        objective = Quadratic(np.eye(5), -TARGET)
        minimize(
            objective, DOMAIN, method=method, max_iter=20, tol=0.0,
            callback=lambda it: kept.append((it.x, it.x.copy())),
        )  # fmt: skip
    for x, copy in kept:
        np.testing.assert_array_equal(x, copy)


@pytest.mark.parametrize("method", ["fw", "away", "fully-corrective", "di-pairwise"])
def test_interrupted_in_the_callback(method: str) -> None:
    def callback(iterate: Iterate) -> None:
        if iterate.iteration == 1:
            raise KeyboardInterrupt

    result = minimize(OBJECTIVE, DOMAIN, method=method, callback=callback, tol=1e-12)
    assert result.status is Status.INTERRUPTED
    assert result.n_iter == 1
    _holds(result)


@pytest.mark.parametrize("method", ["fw", "away", "fully-corrective", "di-pairwise"])
def test_ctrl_c_in_the_objective(method: str) -> None:
    """A signal as Ctrl-C sends it: the iteration is finished, the run ends with a certificate."""
    calls = 0

    def hook() -> None:
        nonlocal calls
        calls += 1
        if calls == 12:
            signal.raise_signal(signal.SIGINT)

    before = signal.getsignal(signal.SIGINT)
    assert before is signal.default_int_handler
    result = minimize(_smooth(hook), DOMAIN, method=method, tol=0.0)
    assert signal.getsignal(signal.SIGINT) is before
    assert result.status is Status.INTERRUPTED
    assert calls >= 12
    _holds(result)
    with pytest.raises(KeyboardInterrupt):  # Ctrl-C is Ctrl-C again
        signal.raise_signal(signal.SIGINT)


@pytest.mark.parametrize("method", ["fw", "away", "fully-corrective", "di-pairwise"])
def test_a_second_ctrl_c_ends_the_iteration_too(method: str) -> None:
    calls = 0

    def hook() -> None:
        nonlocal calls
        calls += 1
        if calls == 12:
            signal.raise_signal(signal.SIGINT)
            signal.raise_signal(signal.SIGINT)

    result = minimize(_smooth(hook), DOMAIN, method=method, tol=0.0)
    assert result.status is Status.INTERRUPTED
    _holds(result)
    if result.active_set is not None:
        np.testing.assert_allclose(result.active_set.point(), result.x, atol=1e-14)


@pytest.mark.parametrize("nth", range(4, 40, 3))
def test_an_interrupt_inside_a_correction_ends_the_outer_run(nth: int) -> None:
    """With a handler of the user's own, KeyboardInterrupt may come out of anywhere."""
    calls = 0

    def hook() -> None:
        nonlocal calls
        calls += 1
        if calls == nth:
            raise KeyboardInterrupt

    result = minimize(_smooth(hook), DOMAIN, method="fully-corrective", tol=0.0)
    assert result.status is Status.INTERRUPTED
    assert calls <= nth + 3  # the certificates of the inner and of the outer run, and its rounding
    _holds(result)
    if result.active_set is not None:
        np.testing.assert_allclose(result.active_set.point(), result.x, atol=1e-14)


def test_a_handler_of_the_users_own_is_left_alone() -> None:
    pressed: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, frame: pressed.append(number))
    try:
        own = signal.getsignal(signal.SIGINT)
        result = minimize(OBJECTIVE, DOMAIN, callback=lambda it: signal.raise_signal(signal.SIGINT))
        assert signal.getsignal(signal.SIGINT) is own
    finally:
        signal.signal(signal.SIGINT, before)
    assert result.success
    assert pressed


def test_runs_in_another_thread() -> None:
    results: list[Any] = []
    thread = threading.Thread(target=lambda: results.append(minimize(OBJECTIVE, DOMAIN)))
    thread.start()
    thread.join()
    assert results[0].success


def test_an_error_restores_the_handler() -> None:
    def callback(iterate: Iterate) -> None:
        raise RuntimeError("mine")

    with pytest.raises(RuntimeError, match="mine"):
        minimize(OBJECTIVE, DOMAIN, callback=callback, verbose=1)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


# ------------------------------------------------------------------------------- non-finite


@pytest.mark.parametrize("domain", [Simplex(9), Birkhoff(3), NuclearNormBall((3, 3))])
@pytest.mark.parametrize("bad", [np.nan, np.inf])
@pytest.mark.filterwarnings("ignore:invalid value encountered")  # numpy's, on inf - inf
def test_nan_at_the_start_is_an_error(domain: Any, bad: float) -> None:
    for method in ("fw", "blended-pairwise"):
        with pytest.raises(ValueError, match=r"objective must be finite .* at the starting point"):
            minimize(Smooth(lambda x: bad, lambda x: x), domain, method=method)
        with pytest.raises(ValueError, match=r"objective must be finite .* at the starting point"):
            minimize(Smooth(lambda x: 0.0, lambda x: bad * np.ones(9)), domain, method=method)


@pytest.mark.parametrize("method", ["fw", "away", "pairwise", "fully-corrective", "di-pairwise"])
@pytest.mark.parametrize("where", ["value", "gradient", "both"])
@pytest.mark.parametrize("bad", [np.nan, np.inf])
@pytest.mark.filterwarnings("ignore:invalid value encountered")  # numpy's, on inf - inf
def test_nan_later_returns_the_last_good_point(method: str, where: str, bad: float) -> None:
    """f breaks down once the last coordinate is above 0.15, as it is on the way to the optimum."""
    target = np.array([0.1, 0.1, 0.1, 0.1, 1.5])

    def value(x: np.ndarray) -> float:
        broken = x[-1] > 0.15 and where != "gradient"
        return bad if broken else 0.5 * float((x - target) @ (x - target))

    def gradient(x: np.ndarray) -> np.ndarray:
        broken = x[-1] > 0.15 and where != "value"
        return np.full(5, bad) if broken else x - target

    for step in ("exact",) if method == "fully-corrective" else ("exact", "short", "backtracking"):
        objective = Smooth(value, gradient, lipschitz=1.0)
        result = minimize(objective, DOMAIN, method=method, step=step, max_iter=60)
        assert result.status in (Status.NON_FINITE, Status.NO_PROGRESS, Status.ITERATION_LIMIT)
        assert DOMAIN.contains(result.x)
        assert result.x[-1] <= 0.15
        assert np.isfinite(result.value)
        residual = result.x - target
        assert result.value == pytest.approx(0.5 * residual @ residual)
        assert result.gap == pytest.approx(residual @ result.x - residual.min())
        if step == "short":
            assert result.status is Status.NON_FINITE


# ----------------------------------------------------------------------------------- trace


def test_trace_columns() -> None:
    result = minimize(OBJECTIVE, DOMAIN, method="away", tol=1e-9)
    trace = result.trace
    assert trace.columns == ("iteration", "seconds", "value", "gap", "step", "kind")
    np.testing.assert_array_equal(trace["iteration"], np.arange(result.n_iter + 1))
    assert (np.diff(trace["seconds"]) >= 0).all()
    assert trace["seconds"][-1] <= result.seconds
    assert trace["value"][-1] == result.value
    assert trace["gap"][-1] == result.gap
    assert np.isnan(trace["step"][0])
    assert trace["kind"][0] == "start"
    assert set(trace["kind"][1:]) <= {"fw", "away", "away-drop"}
    assert result.lower_bound == pytest.approx((trace["value"] - trace["gap"]).max())
    rows = list(trace)
    assert len(rows) == len(trace) == result.n_iter + 1
    assert rows[-1]["gap"] == result.gap
    with pytest.raises(KeyError, match="no column 'loss'; the columns are iteration"):
        trace["loss"]
    assert repr(trace).startswith(f"Trace({len(trace)} rows: iteration")


def test_trace_to_pandas() -> None:
    result = minimize(OBJECTIVE, DOMAIN, method="fw", max_iter=5)
    frame = result.trace.to_pandas()
    assert list(frame.columns) == list(result.trace.columns)
    assert len(frame) == 6
    np.testing.assert_array_equal(frame["value"], result.trace["value"])
    assert frame["kind"].tolist() == ["start", *["fw"] * 5]


def test_trace_plot() -> None:
    mpl.use("Agg")
    import matplotlib.pyplot as plt

    result = minimize(OBJECTIVE, DOMAIN, method="fw", max_iter=30)
    axes = result.trace.plot(x="seconds", label="mine")
    (line,) = axes.lines
    np.testing.assert_array_equal(line.get_ydata(), result.trace["gap"])
    np.testing.assert_array_equal(line.get_xdata(), result.trace["seconds"])
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("seconds", "duality gap")
    assert axes.get_yscale() == "log"
    legend = axes.get_legend()
    assert legend is not None
    assert legend.get_texts()[0].get_text() == "mine"
    assert Trace().plot(axes) is axes  # an empty trace draws nothing, on axes of one's own
    plt.close("all")


def test_trace_plots_a_gap_that_is_not_always_known() -> None:
    mpl.use("Agg")
    import matplotlib.pyplot as plt

    case = problem("l1", "quadratic", "face")
    result = minimize(case.objective, case.domain, method="randomized-away", random_state=0)
    (line,) = result.trace.plot().lines
    assert (np.asarray(line.get_ydata()) > 0).all()
    plt.close("all")


def test_the_lower_bound_is_the_best_on_the_way() -> None:
    """Open-loop gaps go up and down; the bound does not."""
    case = problem("P_3", "quadratic", "face")
    for max_iter in range(0, 60, 7):
        result = minimize(
            case.objective, case.domain, method="fw", step="open-loop", max_iter=max_iter
        )
        bounds = result.trace["value"] - result.trace["gap"]
        assert result.lower_bound >= bounds.max() - 1e-12
        assert result.lower_bound <= case.optimum + 1e-9
        # A rule that does not descend: the best point comes back, not the last.
        assert result.value <= result.trace["value"].min() + 1e-12


# --------------------------------------------------------------------------------- progress


def test_silence_is_the_default(capfd: pytest.CaptureFixture[str]) -> None:
    minimize(OBJECTIVE, DOMAIN)
    assert capfd.readouterr() == ("", "")


def test_verbose_1_says_how_it_ended(capfd: pytest.CaptureFixture[str]) -> None:
    result = minimize(OBJECTIVE, DOMAIN, method="away", verbose=1)
    out, err = capfd.readouterr()
    assert out == ""
    assert "away" in err
    assert "solved" in err
    assert f"{result.value:.9g}" in err


def test_verbose_2_prints_a_table(capfd: pytest.CaptureFixture[str]) -> None:
    minimize(OBJECTIVE, DOMAIN, method="fw", verbose=2, max_iter=3)
    out, err = capfd.readouterr()
    assert out == ""
    lines = err.splitlines()
    assert "fw" in lines[0]
    assert lines[1].split() == ["iteration", "seconds", "value", "gap", "step", "kind"]
    assert [line.split()[0] for line in lines[2:6]] == ["0", "1", "2", "3"]
    assert lines[2].split()[-1] == "start"
    assert "iteration limit" in lines[-1]


def test_a_terminal_gets_a_live_line(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")  # rich takes it for a terminal
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "120")
    slow = _smooth(lambda: time.sleep(0.001))
    minimize(slow, DOMAIN, method="fw", step="short", verbose=1, tol=0.0, max_iter=150)
    err = capfd.readouterr().err
    assert "iteration" in err
    assert "gap" in err
    assert "limit" in err
