"""Tests of what only some systems have are skipped on the others, by their marker."""

import signal
import sys

import pytest

HERE = {"posix": sys.platform != "win32", "linux": sys.platform == "linux"}


def pytest_configure():
    """Ctrl-C is heard also where the shell has started the tests in the background."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_runtest_setup(item):
    for system, is_here in HERE.items():
        if not is_here and item.get_closest_marker(system):
            pytest.skip(f"needs a {system} system")
