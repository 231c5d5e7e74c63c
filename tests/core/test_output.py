"""The one writer: the old content or the new, whatever is in its place and whatever fails."""

from __future__ import annotations

import errno
import itertools
import os
import signal
import stat
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

import cornerstep
from cornerstep.core.npy import require_rows_of_entries
from cornerstep.core.output import WriteError, open_regular, replacing, replacing_text

SOURCE = str(Path(cornerstep.__file__).parents[1])


def names(folder):
    return sorted(entry.name for entry in folder.iterdir())


def write(path, data=b"new"):
    with replacing(path) as file:
        file.write(data)


def write_and_raise(path, problem):
    with replacing(path) as file:
        file.write(b"half")
        if problem is not None:
            raise problem


@pytest.mark.posix
def test_a_new_file_has_the_mode_of_ordinary_files(tmp_path):
    before = os.umask(0o027)
    try:
        write(tmp_path / "a")
    finally:
        os.umask(before)
    assert (tmp_path / "a").read_bytes() == b"new"
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == 0o640
    assert names(tmp_path) == ["a"]


@pytest.mark.posix
@pytest.mark.parametrize("mode", [0o600, 0o644, 0o664, 0o755, 0o640])
def test_the_mode_stays(tmp_path, mode):
    path = tmp_path / "a"
    path.write_bytes(b"old")
    path.chmod(mode)
    write(path)
    assert path.read_bytes() == b"new"
    assert stat.S_IMODE(path.stat().st_mode) == mode


@pytest.mark.posix
@pytest.mark.parametrize("there", [True, False])
@pytest.mark.parametrize("absolute", [True, False])
def test_symbolic_links_are_followed(tmp_path, there, absolute):
    (tmp_path / "far").mkdir()
    target = tmp_path / "far" / "target"
    if there:
        target.write_bytes(b"old")
    (tmp_path / "middle").symlink_to(target if absolute else "far/target")
    (tmp_path / "link").symlink_to("middle")
    write(tmp_path / "link")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "middle").is_symlink()
    assert target.read_bytes() == b"new"
    assert names(tmp_path / "far") == ["target"]


@pytest.mark.posix
@pytest.mark.parametrize(
    ("failing", "there"),
    [
        ("fchmod", True),  # a new file keeps the mode that it was made with
        *itertools.product(["block", "interrupt", "fsync", "replace", "write"], [True, False]),
    ],
)
def test_what_was_there_stays_if_anything_fails(tmp_path, monkeypatch, failing, there):
    path = tmp_path / "a"
    if there:
        path.write_bytes(b"old")
    full = OSError(errno.ENOSPC, "No space left on device")

    def fail(*_):
        raise full

    if failing in ("fsync", "fchmod", "replace"):
        monkeypatch.setattr(os, failing, fail)
    kind = {"block": ZeroDivisionError, "interrupt": KeyboardInterrupt}.get(failing, WriteError)
    raised = {"block": kind(), "interrupt": kind(), "write": full}.get(failing)
    with pytest.raises(kind) as caught:
        write_and_raise(path, raised)
    if isinstance(caught.value, WriteError):
        assert caught.value.filename == str(path)
        assert caught.value.strerror == "No space left on device"
    assert names(tmp_path) == (["a"] if there else [])
    assert not there or path.read_bytes() == b"old"


def test_text_that_cannot_be_written_leaves_nothing(tmp_path):
    (tmp_path / "a").write_text("old")
    with pytest.raises(UnicodeEncodeError), replacing_text(tmp_path / "a") as file:
        file.writelines(["half" * 10_000, "\ud800"])
    assert (tmp_path / "a").read_text() == "old"
    assert names(tmp_path) == ["a"]


@pytest.mark.posix
def test_a_pipe_is_written_to(tmp_path):
    path = tmp_path / "pipe"
    os.mkfifo(path)
    found = []
    reader = threading.Thread(target=lambda: found.append(path.read_bytes()))
    reader.start()
    write(path, b"through")
    reader.join()
    assert found == [b"through"]
    assert stat.S_ISFIFO(path.stat().st_mode)
    with pytest.raises(OSError, match="not a regular file"):
        open_regular(path)


@pytest.mark.posix
def test_devices_and_links_to_them_stay_devices(tmp_path):
    (tmp_path / "link").symlink_to("/dev/null")
    for path in (Path("/dev/null"), tmp_path / "link"):
        write(path)
        assert stat.S_ISCHR(path.stat().st_mode)
    with pytest.raises(WriteError, match="No space left"):
        write("/dev/full")
    with pytest.raises(OSError, match="not a regular file"):
        open_regular("/dev/zero")


@pytest.mark.posix
def test_open_descriptors_are_written_to_where_they_stand(tmp_path):
    code = (
        "from cornerstep.core.output import replacing\nimport sys\nprint('one')\n"
        "with replacing('/dev/stdout') as file: file.write(b'two\\n')\nprint('three')\n"
    )
    path = tmp_path / "out"
    path.write_text("zero\n")
    with path.open("a") as out:
        done = subprocess.run(
            [sys.executable, "-c", code], stdout=out, env=dict(os.environ, PYTHONPATH=SOURCE)
        )
    assert done.returncode == 0
    assert path.read_text().split() == ["zero", "one", "two", "three"]


@pytest.mark.posix
def test_what_killed_writers_left_behind_is_removed_and_nothing_else(tmp_path):
    path = tmp_path / "a"
    code = (
        "import sys\nfrom cornerstep.core.output import replacing\n"
        f"with replacing({str(path)!r}) as file:\n file.write(b'half'); file.flush()\n"
        " print('here', flush=True)\n sys.stdin.read()\n"
    )
    writer = subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        env=dict(os.environ, PYTHONPATH=SOURCE),
    )  # fmt: skip
    assert writer.stdout is not None
    writer.stdout.readline()
    (tmp_path / ".a.0123456789abcdef.part2").write_bytes(b"another's")
    (tmp_path / ".b.0123456789abcdef.part").write_bytes(b"another's")
    write(path)
    assert len(names(tmp_path)) == 4  # of the writer that is alive, too
    writer.send_signal(signal.SIGKILL)
    writer.communicate()
    write(path, b"newer")
    assert names(tmp_path) == [".a.0123456789abcdef.part2", ".b.0123456789abcdef.part", "a"]
    assert path.read_bytes() == b"newer"


def test_two_writers_at_once(tmp_path):
    path = tmp_path / "a"
    with replacing(path) as first, replacing(path) as second:
        first.write(b"first")
        second.write(b"second")
    assert path.read_bytes() == b"first"  # the last to end
    assert names(tmp_path) == ["a"]


@pytest.mark.parametrize("name", ["x" * 255, "\u00e9" * 127, "a b*[c]?\n", ".hidden"])
def test_any_name(tmp_path, name):
    for data in (b"one", b"two"):
        write(tmp_path / name, data)
    assert (tmp_path / name).read_bytes() == b"two"
    assert names(tmp_path) == [name]


def test_what_cannot_be_written_is_named(tmp_path):
    for path, why in (
        (tmp_path / "no" / "a", "No such file"), (tmp_path, "Is a directory"),
        (tmp_path / "file" / "a", "Not a directory"), (tmp_path / ("x" * 256), "name too long"),
    ):  # fmt: skip
        (tmp_path / "file").write_bytes(b"")
        with pytest.raises(WriteError, match=why) as caught:
            write(path)
        assert caught.value.filename == str(path)


@pytest.mark.posix
@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anything")
def test_read_only_files_are_not_replaced(tmp_path):
    (tmp_path / "a").write_bytes(b"old")
    (tmp_path / "a").chmod(0o400)
    with pytest.raises(WriteError, match="Permission denied"):
        write(tmp_path / "a")
    assert (tmp_path / "a").read_bytes() == b"old"


@pytest.mark.parametrize(
    ("indices", "starts"),
    [
        ([0, 1], [0, 1, 1]),
        ([0, 1], [0, -1, 2]),
        ([0, 1], [1, 1, 2]),
        ([0, 1], [0, 2]),
        ([0, 1], [0, 1, -(10**9)]),
        ([0.0, 1.0], [0, 1, 2]),
    ],
)
def test_rows_that_do_not_fit_their_entries(indices, starts):
    """SciPy takes the fifth, and its compiled product reads memory out of bounds."""
    require_rows_of_entries((np.ones(2), np.array([0, 1]), np.array([0, 1, 2])), 2)
    with pytest.raises(ValueError, match="do not fit"):
        require_rows_of_entries((np.ones(2), np.array(indices), np.array(starts)), 2)
