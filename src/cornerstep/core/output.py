"""Files: the one writer of everything that goes out, and the way in for untrusted ones.

``replacing(path)`` opens a file beside its place, which takes that place when it is complete and on
the disk: a reader sees the old content or the new, whatever fails on the way.  The mode of what was
there stays, a symbolic link is followed, and what is no regular file (a device, a pipe, an open
descriptor such as ``/dev/stdout``) is written to, never replaced.

A process that is killed leaves its file beside the place.  A writer holds a lock on its own, so
that the next one knows which are left behind, and removes them.
"""

from __future__ import annotations

import errno
import io
import os
import re
import secrets
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, TextIO

try:
    import fcntl
except ImportError:  # no POSIX system: nothing is known to be left behind, so nothing is removed
    fcntl = None  # type: ignore[assignment]

_NAME = 200  # bytes of a target's name that its temporary files bear: names have a limit of 255
_DESCRIPTOR = re.compile(r"/proc/(?P<process>\d+)/(?:task/\d+/)?fd/(?P<number>\d+)")


class WriteError(OSError):
    """A file that cannot be written, and why; what was there before is there still."""


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """A file to write bytes to, which is at ``path`` if and only if the block ends well.

    Parameters
    ----------
    path : path-like

    Raises
    ------
    WriteError
        With ``path`` as its file name.
    BrokenPipeError
        If ``path`` is a pipe whose reader has left.
    """
    try:
        with _through(path) if _is_special(path) else _beside(Path(os.path.realpath(path))) as file:
            yield file
    except BrokenPipeError:
        raise
    except OSError as problem:
        why = problem.strerror or str(problem)
        raise WriteError(problem.errno or errno.EIO, why, os.fspath(path)) from None


@contextmanager
def replacing_text(path: str | os.PathLike[str], newline: str | None = None) -> Iterator[TextIO]:
    """The same for text, in UTF-8.

    Parameters
    ----------
    path : path-like
    newline : str, optional
        As in :func:`open`.
    """
    with replacing(path) as file:
        text = io.TextIOWrapper(file, encoding="utf-8", newline=newline)
        try:
            yield text
            text.flush()
        finally:
            with suppress(OSError):
                text.detach()  # it is for replacing to close the file


def open_regular(path: str | os.PathLike[str]) -> BinaryIO:
    """A regular file to read bytes from; a pipe or a device, which may have no end, is refused.

    Parameters
    ----------
    path : path-like

    Raises
    ------
    OSError
    """
    handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
    kind = os.fstat(handle).st_mode
    if not stat.S_ISREG(kind):
        os.close(handle)
        why = "it is a folder" if stat.S_ISDIR(kind) else "it is not a regular file"
        raise OSError(errno.EINVAL, why, os.fspath(path))
    return os.fdopen(handle, "rb")


def _descriptor(path: str | os.PathLike[str]) -> re.Match[str] | None:
    """The open descriptor that a path names, if any: ``/dev/stdout`` is a link to one."""
    name = os.path.abspath(path)
    for _ in range(40):  # as many links as the system follows
        folder, last = os.path.split(name)
        name = os.path.join(os.path.realpath(folder), last)
        found = _DESCRIPTOR.fullmatch(name)
        if found or not os.path.islink(name):
            return found
        name = os.path.join(os.path.dirname(name), os.readlink(name))
    return None


def _is_special(path: str | os.PathLike[str]) -> bool:
    try:
        kind = os.stat(path).st_mode
    except OSError:  # nothing there yet, or nothing to be had: opening will say which
        return False
    return not stat.S_ISREG(kind) or _descriptor(path) is not None


@contextmanager
def _through(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """What is there, written to as it is: a descriptor from where it stands."""
    found = _descriptor(path)
    if found is not None and int(found["process"]) == os.getpid():
        for stream in (sys.stdout, sys.stderr):
            if stream is not None:
                stream.flush()
        handle = os.dup(int(found["number"]))
    else:
        handle = os.open(path, os.O_WRONLY | os.O_APPEND)
    with io.BufferedWriter(_Through(handle, "wb")) as file:
        yield file


class _Through(io.FileIO):
    """A file that goes on and on: a device may say that it can be wound back, and cannot."""

    def seekable(self) -> bool:
        return False

    def tell(self) -> int:
        raise OSError(errno.ESPIPE, os.strerror(errno.ESPIPE))


@contextmanager
def _beside(target: Path) -> Iterator[BinaryIO]:
    """A new file in the same folder, which replaces the target when it is complete."""
    old = _existing(target)
    _remove_left_behind(target)
    handle, temporary = _new_beside(target, 0o600 if old else 0o666)
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
            file.flush()
            if old is not None:
                with suppress(PermissionError):
                    os.fchown(handle, old.st_uid, old.st_gid)
                with suppress(PermissionError):  # a file system without modes
                    os.fchmod(handle, stat.S_IMODE(old.st_mode))
            os.fsync(handle)
            os.replace(temporary, target)
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary)
        raise


def _existing(target: Path) -> os.stat_result | None:
    """What is known of the file that is to be replaced; complains if it may not be written."""
    try:
        old = target.stat()
    except FileNotFoundError:
        return None
    if not os.access(target, os.W_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    return old


def _new_beside(target: Path, mode: int) -> tuple[int, Path]:
    """A new file, locked, and its name."""
    while True:
        temporary = target.with_name(f"{_prefix(target)}{secrets.token_hex(8)}.part")
        handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
        if _lock(handle) and temporary.exists():
            return handle, temporary
        os.close(handle)  # another writer took it for left behind before it was locked


def _prefix(target: Path) -> str:
    return f".{os.fsdecode(os.fsencode(target.name)[:_NAME])}."


def _lock(handle: int) -> bool:
    """Whether the lock on a file could be had; where there are no locks it always can."""
    try:
        if fcntl is not None:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # a file system without locks
        return True
    return True


def _remove_left_behind(target: Path) -> None:
    """Remove the temporary files of writers that are no more: nobody holds their lock."""
    if fcntl is None:
        return
    ours = re.compile(re.escape(_prefix(target)) + r"[0-9a-f]{16}\.part")
    with suppress(OSError):
        for entry in os.scandir(target.parent):
            if ours.fullmatch(entry.name):
                _remove_unlocked(entry.path)


def _remove_unlocked(path: str) -> None:
    with suppress(OSError), open(path, "r+b") as file:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.unlink(path)
