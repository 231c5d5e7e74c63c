"""Tests of what only some systems have are skipped on the others, by their marker."""

import sys

import pytest

HERE = {"posix": sys.platform != "win32", "linux": sys.platform == "linux"}


def pytest_runtest_setup(item):
    for system, is_here in HERE.items():
        if not is_here and item.get_closest_marker(system):
            pytest.skip(f"needs a {system} system")
