"""The clock of limits and reports stands still while kernels are compiled."""

from __future__ import annotations

import importlib.util
import sys
import time

import numba
import pytest

from cornerstep.core import clock, compiling


def elapsed(work):
    start = clock.work_seconds(), time.perf_counter()
    work()
    return clock.work_seconds() - start[0], time.perf_counter() - start[1]


def test_it_goes_like_any_other():
    ours, theirs = elapsed(lambda: time.sleep(0.02))
    assert 0.02 <= ours <= theirs


def test_it_stands_still_while_something_is_compiled():
    seen: list[float] = []

    def compiled():
        clock.stop_for_compilation()
        clock.stop_for_compilation()  # what the first one needs
        time.sleep(0.05)
        clock.go_on()
        seen.extend(clock.work_seconds() for _ in range(2))
        time.sleep(0.05)
        clock.go_on()

    ours, theirs = elapsed(compiled)
    assert seen[0] == seen[1]
    assert ours <= theirs - 0.1


def test_the_compiler_tells_it():
    inside = []

    @numba.njit  # nothing of it is kept on disk
    def thrice(x):
        return 3 * x

    assert compiling  # which listens
    before = clock.compiled_seconds()
    ours, theirs = elapsed(lambda: inside.append(thrice(1.0)))
    spent = clock.compiled_seconds() - before
    assert inside == [3.0]
    assert spent > 0
    assert ours == pytest.approx(theirs - spent, abs=1e-3)


def test_somebody_before_a_screen_is_told_once(monkeypatch, capsys):
    spec = importlib.util.spec_from_file_location("another_clock", clock.__file__)
    assert spec is not None
    assert spec.loader is not None
    another = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(another)  # one that has told nobody
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    for _ in range(2):
        another.stop_for_compilation()
        another.go_on()
    assert capsys.readouterr().err == "cornerstep: compiling, once per machine\n"
