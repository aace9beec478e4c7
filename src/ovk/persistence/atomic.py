"""Replace a file as a whole, or not at all.

The new content goes to a temporary file in the same folder (so that the last step is a rename within one
file system), reaches the disk, and only then takes the old file's name. A reader sees the old file or the
new one; a crash leaves the old one, and perhaps a `.ovk-*.tmp` beside it that is safe to delete.
"""

from __future__ import annotations

import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import BinaryIO


@contextmanager
def replacing(path: str) -> Iterator[BinaryIO]:
    """Open a file for writing that becomes `path` when the block ends without an error."""
    target = os.path.realpath(path)  # through symbolic links: the link stays a link
    folder = os.path.dirname(target)
    if not os.path.isdir(folder):
        raise FileNotFoundError(f"path: there is no folder {folder!r}; create it first")
    permissions = _permissions(target)
    # Not `tempfile`: its files are private (0o600), and the umask cannot be read without changing it for
    # all threads. Here the kernel applies it.
    temporary = os.path.join(folder, f".ovk-{secrets.token_hex(8)}.tmp")
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
    descriptor = os.open(temporary, flags, 0o666 if permissions is None else permissions)
    try:
        with open(descriptor, "wb") as file:
            if permissions is not None:
                os.chmod(temporary, permissions)  # what the umask took away; still before the first byte
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, target)
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary)
        raise
    _sync_folder(folder)


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


def _sync_folder(folder: str) -> None:
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
