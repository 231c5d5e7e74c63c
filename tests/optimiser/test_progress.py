"""The gauge of the live line: how far the gap has come, and how long it will still take."""

import math

import pytest

from cornerstep.optimiser.progress import Descent, Progress, duration


def test_the_way_is_measured_on_a_log_scale():
    descent = Descent()
    assert descent.share(1e-4) == 0.0
    descent.add(0.0, 1.0)
    assert descent.share(1e-4) == 0.0
    descent.add(1.0, 1e-1)
    assert descent.share(1e-4) == pytest.approx(0.25)
    descent.add(2.0, 0.5)  # worse than before: passed over
    descent.add(2.0, math.nan)
    descent.add(2.0, 0.0)
    descent.add(3.0, 1e-2)
    assert descent.share(1e-4) == pytest.approx(0.5)
    assert descent.share(2.0) == 1.0
    assert descent.share(0.0) == 0.0


def test_the_time_left_follows_the_rate():
    descent = Descent()
    for second, gap in enumerate([1.0, 0.1]):
        descent.add(float(second), gap)
    assert descent.seconds_left(1.0, 1e-4) is None  # too little is known
    descent.add(2.0, 0.01)
    assert descent.seconds_left(2.0, 1e-4) == pytest.approx(2.0)
    assert descent.seconds_left(4.0, 1e-4) == pytest.approx(4.0)  # it has stood still since
    assert descent.seconds_left(2.0, 0.5) == 0.0
    assert descent.seconds_left(2.0, 0.0) is None


def test_durations_are_said_as_people_do():
    assert [duration(s) for s in (0.2, 45, 600, 7200)] == ["1 s", "45 s", "10 min", "2.0 h"]


def test_the_display_fits_a_narrow_terminal():
    from rich.text import Text

    progress = Progress(1, "StructuredSVC, bcfw-pairwise", lambda value: 1e-3 * value)
    for second in range(5):
        progress.update(second, float(second), 1234.5678, 1000.0 * 0.5**second, 1.0, "fw")
    shown = Text.from_markup(progress.lines(123_456, 3600.0, 1234.5678, "")).plain.splitlines()
    assert shown[0].endswith("iteration 123,456  primal 1234.57  dual 1172.07")
    assert shown[1].startswith("  relative gap 5.1e-02 ━")
    assert shown[1].endswith(" 1e-03  3600.0 s, about 85 min left")
    assert max(map(len, shown)) <= 80
