"""Replace a file as a whole, or not at all.

The new content goes to a temporary file in the same folder (so that the last step is a rename within one
file system), reaches the disk, and only then takes the old file's name. A reader sees the old file or the
new one; a crash leaves the old one, and perhaps a `.ovk-*.tmp` beside it.

Such leftovers are removed by the next save in that folder. Who writes a temporary file holds a lock on it,
which the system releases when the process ends, however it ends: a temporary file that can be locked is
nobody's. Where there are no locks (Windows), nothing is removed.
"""

from __future__ import annotations

import errno
import os
import secrets
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import BinaryIO

if sys.platform != "win32":
    import fcntl

LOCKS = sys.platform != "win32"
PREFIX, SUFFIX = ".ovk-", ".tmp"

#: What a write fails with that finds no room: on the disk, within a quota, or within a limit of the process.
NO_ROOM = {errno.ENOSPC, errno.EFBIG, getattr(errno, "EDQUOT", errno.ENOSPC)}


@contextmanager
def replacing(path: str) -> Iterator[BinaryIO]:
    """Open a file for writing that becomes `path` when the block ends without an error."""
    target = os.path.realpath(path)  # through symbolic links: the link stays a link
    folder = os.path.dirname(target)
    if not os.path.isdir(folder):
        raise FileNotFoundError(f"path: there is no folder {folder!r}; create it first")
    permissions = _permissions(target)
    remove_leftovers(folder)
    temporary, descriptor = _create(folder, permissions)
    try:
        with open(descriptor, "wb") as file:
            if permissions is not None:
                os.chmod(temporary, permissions)  # what the umask took away; still before the first byte
            yield file
            file.flush()
            os.fsync(file.fileno())
            if LOCKS:  # which closing the file would release, and somebody might remove it as a leftover
                os.replace(temporary, target)
        if not LOCKS:  # where open files cannot be renamed
            os.replace(temporary, target)
    except BaseException as error:
        with suppress(OSError):
            os.unlink(temporary)
        if isinstance(error, OSError) and error.errno in NO_ROOM and error.filename is None:
            error.filename = path  # a write does not tell
        raise
    sync_folder(folder)


def _create(folder: str, permissions: int | None) -> tuple[str, int]:
    """Name and descriptor of a new temporary file, which is locked."""
    # Not `tempfile`: its files are private (0o600), and the umask cannot be read without changing it for
    # all threads. Here the kernel applies it.
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
    while True:
        temporary = os.path.join(folder, f"{PREFIX}{secrets.token_hex(8)}{SUFFIX}")
        descriptor = os.open(temporary, flags, 0o666 if permissions is None else permissions)
        if not LOCKS:
            return temporary, descriptor
        with suppress(OSError):  # a file system without locks: nobody else can lock it either
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        if os.fstat(descriptor).st_nlink > 0:
            return temporary, descriptor
        os.close(descriptor)  # it was taken for a leftover before it was locked


def remove_leftovers(folder: str) -> None:
    """Remove the temporary files of processes that have ended; those being written stay."""
    leftovers: list[str] = []
    with suppress(OSError):  # a folder that may be written but not listed
        leftovers = [name for name in os.listdir(folder) if name.startswith(PREFIX) and name.endswith(SUFFIX)]
    for name in leftovers if LOCKS else ():
        path = os.path.join(folder, name)
        with suppress(OSError):
            descriptor = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK)
            try:
                if stat.S_ISREG(os.fstat(descriptor).st_mode):
                    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    os.unlink(path)
            finally:
                os.close(descriptor)


def _permissions(target: str) -> int | None:
    """Permission bits of the file to be replaced, or None if there is no file yet."""
    try:
        mode = os.stat(target).st_mode
    except FileNotFoundError:
        return None
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(f"path: {target!r} is a folder; give the name of a file in it")
    if not stat.S_ISREG(mode):
        raise ValueError(f"path: {target!r} is a device or a pipe; save to a regular file")
    if not os.access(target, os.W_OK):
        # A rename asks the folder only: without this check a read-only file would be replaced.
        raise PermissionError(f"path: {target!r} is read-only; make it writable or save elsewhere")
    return stat.S_IMODE(mode) & 0o777


def sync_folder(folder: str) -> None:
    """Make the new name itself last.

    The content is safe by now. Where folders cannot be synced, nothing is lost but the certainty that a power
    cut shows the new file rather than the old one.
    """
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
