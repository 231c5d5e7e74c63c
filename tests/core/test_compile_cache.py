"""The compile cache: damaged files are made anew, a full disk does without."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import os
import pkgutil
import random
import shutil
import tempfile

import pytest

numba = pytest.importorskip("numba")

from numba import config  # noqa: E402

import cornerstep  # noqa: E402
from cornerstep.core import compile_cache, compiling  # noqa: E402

MODULE = """
from cornerstep.core.compiling import njit

@njit(nogil=True)
def twice(x):
    return 2 * x
"""


@pytest.fixture
def load(tmp_path, monkeypatch):
    """A module of one kernel, as a new process would see it; its cache lies beside it."""
    monkeypatch.setattr(config, "CACHE_DIR", "")  # whatever NUMBA_CACHE_DIR was
    path = tmp_path / "kernel_of_the_test.py"
    path.write_text(MODULE)

    def loaded():
        spec = importlib.util.spec_from_file_location("kernel_of_the_test", path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module.twice

    return loaded


def hits(function):
    return sum(function.stats.cache_hits.values())


def cache_files(tmp_path):
    return sorted(tmp_path.rglob("*.nb[ic]"))


@pytest.mark.parametrize("damage", ["empty", "cut", "flipped", "garbage", "swapped"])
@pytest.mark.parametrize("which", [".nbi", ".nbc"])
def test_damaged_files_are_made_anew(tmp_path, load, damage, which):
    assert load()(3) == 6
    again = load()
    assert (again(3), hits(again)) == (6, 1)
    index = {path.suffix: path.read_bytes() for path in cache_files(tmp_path)}
    for path in cache_files(tmp_path):
        if path.suffix == which:
            data = index[which]
            at = random.Random(0).randrange(len(data))
            path.write_bytes({
                "empty": b"", "cut": data[:at], "garbage": b"\x80\x04garbage",
                "flipped": data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :],
                "swapped": index[".nbc" if which == ".nbi" else ".nbi"],
            }[damage])  # fmt: skip
    broken = load()
    assert (broken(3), hits(broken)) == (6, 0)
    mended = load()
    assert (mended(3), hits(mended)) == (6, 1)


def test_a_full_disk_does_without(tmp_path, load, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(compile_cache.CheckedCacheFile, "_open_for_write", full)
    function = load()
    assert (function(3), function(1.5)) == (6, 3.0)
    assert cache_files(tmp_path) == []


def test_no_place_for_a_cache(load, monkeypatch):
    def nowhere(*_):
        raise RuntimeError("cannot cache function: no locator available")

    monkeypatch.setattr(numba.core.dispatcher.Dispatcher, "enable_caching", nowhere)
    assert load()(3) == 6


@pytest.fixture
def no_place(tmp_path, monkeypatch):
    """Neither the package nor a home can be written to; the temporary folder."""
    dispatcher = numba.core.dispatcher.Dispatcher
    enable = dispatcher.enable_caching

    def where_told(function):
        if not numba.config.CACHE_DIR:
            raise RuntimeError("cannot cache function: no locator available")
        enable(function)

    monkeypatch.setattr(dispatcher, "enable_caching", where_told)
    monkeypatch.setattr(numba.config, "CACHE_DIR", "")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    return tmp_path / "temporary"


def test_a_temporary_folder_is_a_place_for_a_cache(load, no_place):
    assert load()(3) == 6
    (folder,) = no_place.iterdir()
    assert folder.stat().st_mode & 0o777 == 0o700
    again = load()
    assert (again(3), hits(again)) == (6, 1)
    assert numba.config.CACHE_DIR == ""


@pytest.mark.skipif(not hasattr(os, "getuid"), reason="folders have no modes")
@pytest.mark.parametrize("state", ["writable", "link", "file"])
def test_a_temporary_folder_of_others_is_not(load, no_place, state, tmp_path):
    assert load()(3) == 6
    (folder,) = no_place.iterdir()
    shutil.rmtree(folder)
    if state == "writable":
        folder.mkdir()
        folder.chmod(0o777)
    elif state == "link":
        folder.symlink_to(tmp_path)
    else:
        folder.write_text("")
    assert load()(3) == 6
    assert not cache_files(no_place)


def test_every_kernel_is_compiled_so():
    pytest.importorskip("scipy")
    count = 0
    for module in pkgutil.walk_packages(cornerstep.__path__, "cornerstep."):
        if ".compiled." not in module.name:
            continue
        for value in vars(importlib.import_module(module.name)).values():
            if isinstance(value, numba.core.dispatcher.Dispatcher):
                assert isinstance(value._cache._cache_file, compile_cache.CheckedCacheFile)
                count += 1
    assert count > 30


def test_what_is_private_in_the_compiler_is_still_there():
    """Kernels are right without these, but slower, or their cache is not checked: mend that."""
    options = "the undocumented option for functions without counts (core/compiling.py)"
    assert hasattr(numba.core.options.DefaultOptions, "_nrt"), options
    file = "what reads and writes the files of the cache (core/compile_cache.py)"
    overridden = {"save", "load", "_load_index", "_save_index", "_load_data", "_save_data"}
    used = {"_open_for_write", "_dump", "_data_path"}
    for name in overridden | used:
        assert callable(getattr(numba.core.caching.IndexDataCacheFile, name, None)), (file, name)
    parameters = inspect.signature(numba.core.caching.IndexDataCacheFile).parameters
    assert list(parameters) == ["cache_path", "filename_base", "source_stamp"], file


def test_functions_that_allocate_nothing_count_no_references():
    """The option does what it is for: a view that outlives the call needs one, and is refused."""

    def row_of(table):
        return table[0]

    with pytest.raises(numba.TypingError, match="returning of array"):
        compiling.njit_noalloc()(row_of).compile((numba.float64[:, ::1],))
