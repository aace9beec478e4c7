"""The file: a safetensors container whose header carries our manifest.

    8 bytes     length of the header, little-endian
    header      JSON, padded with spaces so that the arrays start at a multiple of 8:
                    {"__metadata__": {"ovk.manifest": <text>, "ovk.blake2b": <digest of the text>},
                     <array>: {"dtype": "F64", "shape": [...], "data_offsets": [begin, end]}, ...}
    arrays      one after the other, widest numbers first, so that every array is aligned without gaps

Any safetensors reader opens it. We read and write it ourselves rather than through the library, for three
reasons: arrays stream to and from the disk one at a time, without a second copy in memory; every length is
compared with the file's size before anything is allocated; and the header must be, byte for byte, the one
that the manifest implies, so no bit of the file is left unchecked: lengths by the file's size, header by
the manifest, manifest and arrays by their digests.

Reading takes time and memory in proportion to the file. A pair of brackets takes two bytes in the file and a
hundred in memory, so a file may have 100,000 lists and objects, and one more for every 6 bytes of its size.
"""

from __future__ import annotations

import errno
import json
import math
import os
import re
import secrets
import stat
import struct
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from hashlib import blake2b
from io import BufferedReader
from reprlib import repr as short
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from ovk._version import __version__
from ovk.persistence.errors import CorruptFile, NewerFormat, NotSavable

if sys.platform != "win32":
    import fcntl

# How one array lies in the container: its dtype, shape and order, and the plain numbers it is written as.
#
# The container knows booleans, integers and floats. The rest is written as those, with one more axis where
# needed:
#
#     str_ of n        (..., n) uint32: code points
#     bytes_ of n      (..., n) uint8
#     datetime64, timedelta64   int64 counts of their unit
#
# Numbers are little-endian. An array in Fortran order is written as its transpose, and read back in Fortran
# order: no copy is made, and matrix products of the loaded array round exactly as those of the saved one.

#: What numpy writes of the dtypes that a file may hold. `np.dtype` accepts far more (records, nested shapes).
DTYPE = re.compile(r"\|[biu]1|<[iuf][248]|(<U|\|S)[1-9][0-9]{0,8}|<[Mm]8(\[([1-9][0-9]{0,8})?[A-Za-z]{1,2}\])?")
SAVED_DTYPES = "bool, integers, float16 to float64, str, bytes, datetime64 or timedelta64"
#: The container's letters for numbers, where these are not numpy's.
LETTERS = {"S": "U", "M": "I", "m": "I"}


def parse_dtype(text: Any) -> np.dtype[Any] | None:
    """The little-endian dtype that numpy writes as `text`, or None if it is not one that a file may hold."""
    if not isinstance(text, str) or DTYPE.fullmatch(text) is None:
        return None
    try:
        dtype = np.dtype(text)
    except (TypeError, ValueError):
        return None
    return dtype if dtype.str == text else None


@dataclass(frozen=True)
class Spec:
    """Dtype (little-endian), shape and memory order of one stored array."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    order: str

    @classmethod
    def from_array(cls, array: npt.NDArray[Any]) -> Spec | None:
        """The spec of an array in memory, or None if its dtype cannot be stored."""
        # Other kinds may not even have a byte order.
        known = array.dtype.kind in "biufUSMm"
        dtype = parse_dtype(array.dtype.newbyteorder("<").str) if known else None
        if dtype is None:
            return None
        fortran = array.flags.f_contiguous and not array.flags.c_contiguous
        return cls(dtype, array.shape, "F" if fortran else "C")

    @property
    def width(self) -> int:
        """Bytes of one number: of a code point of a string, 4."""
        return {"U": 4, "S": 1}.get(self.dtype.kind, self.dtype.itemsize)

    @property
    def kind(self) -> str:
        """The container's word for the numbers: ``F64``, ``I32``, ..."""
        letter = LETTERS.get(self.dtype.kind, self.dtype.kind.upper())
        return "BOOL" if letter == "B" else f"{letter}{8 * self.width}"

    @property
    def stored_shape(self) -> tuple[int, ...]:
        """The shape that stands in the container's header."""
        letters = (self.dtype.itemsize // self.width,) if self.dtype.kind in "US" else ()
        return (self.shape if self.order == "C" else self.shape[::-1]) + letters

    @property
    def nbytes(self) -> int:
        """Bytes in the file. Python integers: a hostile shape cannot overflow."""
        return math.prod(self.shape) * self.dtype.itemsize

    def to_bytes(self, array: npt.NDArray[Any]) -> memoryview:
        """The bytes to write: a view of `array` where it is contiguous and little-endian, else a copy."""
        ordered = array if self.order == "C" else array.T
        return np.ascontiguousarray(ordered, dtype=self.dtype).reshape(-1).view(np.uint8).data

    def empty(self) -> tuple[npt.NDArray[Any], memoryview]:
        """An array to be filled, and the memory to fill it through."""
        flat = np.empty(math.prod(self.shape), dtype=self.dtype)
        array = flat.reshape(self.shape, order="C" if self.order == "C" else "F")
        return array, flat.view(np.uint8).data

    def fault(self, array: npt.NDArray[Any]) -> str | None:
        """What is wrong with the content of a filled array: bytes that no boolean and no character has."""
        if array.size == 0:
            return None
        flat = array.reshape(-1, order="C" if self.order == "C" else "F")
        if array.dtype.kind == "b" and flat.view(np.uint8).max() > 1:
            return "a boolean that is neither 0 nor 1"
        if array.dtype.kind == "U" and flat.view(self.dtype.str[0] + "u4").max() > 0x10FFFF:
            return "a character beyond U+10FFFF"
        return None


FORMAT = 1
HEADER_LIMIT = 100_000_000  # the safetensors library's own
FREE_NODES, BYTES_PER_NODE = 100_000, 6  # lists and objects in a file, see above
CHUNK = 1 << 20  # bytes hashed while they are still in the processor's cache
NO_DIGEST = "0" * 32
#: A string, also one that does not end: the search never goes back.
STRING = re.compile(r'"[^"\\]*+(?:\\(?:.|\Z)[^"\\]*+)*+(?:"|\Z)', re.DOTALL)


def _digest(data: bytes = b"") -> blake2b:
    return blake2b(data, digest_size=16)


def _json(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=True, allow_nan=False)


def _has_too_many_nodes(text: str, size: int) -> bool:
    """Whether a JSON text has more lists and objects than a file of that size may have."""
    bare = STRING.sub("", text)
    return bare.count("[") + bare.count("{") > FREE_NODES + size // BYTES_PER_NODE


#: How the header begins in every file that we write.
BEGINNING = b'{"'


def _header(manifest: str, specs: Mapping[str, Spec]) -> bytes:
    """Length and header for a manifest and the arrays in the order of the file."""
    digest = _digest(manifest.encode("ascii")).hexdigest()
    header: dict[str, Any] = {"__metadata__": {"ovk.manifest": manifest, "ovk.blake2b": digest}}
    begin = 0
    for name, spec in specs.items():
        end = begin + spec.nbytes
        header[name] = {"dtype": spec.kind, "shape": spec.stored_shape, "data_offsets": [begin, end]}
        begin = end
    text = _json(header).encode("ascii")
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text


def write(file: BinaryIO, value: Any, arrays: Mapping[str, npt.NDArray[Any]], specs: Mapping[str, Spec]) -> None:
    """Write a manifest's tree and its arrays to an empty file."""
    specs = dict(sorted(specs.items(), key=lambda item: -item[1].width))
    digests = dict.fromkeys(specs, NO_DIGEST)

    def manifest() -> str:
        table = {
            name: {
                "dtype": spec.dtype.str,
                "shape": spec.shape,
                "order": spec.order,
                "blake2b": digests[name],
            }
            for name, spec in specs.items()
        }
        return _json({"format": FORMAT, "ovk": __version__, "value": value, "arrays": table})

    # The digests stand before the arrays, but are known after them. They have a fixed width, so the header
    # is written twice and each array is gone through (and, if it is not contiguous, copied) only once.
    text = manifest()
    provisional = _header(text, specs)
    if len(provisional) > HEADER_LIMIT:
        raise NotSavable(
            f"model: its parameters take {len(provisional) / 1e6:.0f} MB of text, the limit is "
            f"{HEADER_LIMIT / 1e6:.0f} MB; keep long lists and dicts of numbers as numpy arrays"
        )
    if _has_too_many_nodes(text, len(provisional) + sum(spec.nbytes for spec in specs.values())):
        raise NotSavable(
            f"model: it has more than {FREE_NODES:,} lists, tuples, dicts and sets of a few bytes each; keep "
            "them as numpy arrays"
        )
    file.write(provisional)
    for name, spec in specs.items():
        digest = _digest()
        raw = spec.to_bytes(arrays[name])
        for start in range(0, len(raw), CHUNK):
            chunk = raw[start : start + CHUNK]
            digest.update(chunk)
            file.write(chunk)
        digests[name] = digest.hexdigest()
    file.seek(0)
    file.write(_header(manifest(), specs))


class Container:
    """An open file whose header has been checked; arrays are read one at a time."""

    def __init__(self, file: BufferedReader, size: int, path: str) -> None:
        self._file, self._size = file, size
        self.path = path
        header = self._read_header(size)
        text = self._manifest_text(header)
        manifest = self._parse(text)
        self.format, self.version = self._check_version(manifest)
        if manifest.keys() != {"format", "ovk", "value", "arrays"} or not isinstance(manifest["arrays"], dict):
            raise self.corrupt(f"its manifest has the entries {short(sorted(manifest))}")
        self.value: Any = manifest["value"]  # the tree
        self.specs: dict[str, Spec] = {}
        self._digests: dict[str, str] = {}
        for name, entry in manifest["arrays"].items():
            self.specs[name], self._digests[name] = self._entry(name, entry)
        if struct.pack("<Q", len(header)) + header != _header(text, self.specs):
            raise self.corrupt("its header does not agree with its manifest")
        self._offsets: dict[str, int] = {}
        end = 8 + len(header)
        for name, spec in self.specs.items():
            self._offsets[name] = end
            end += spec.nbytes
        if end != size:
            raise self.corrupt(f"its arrays should end at byte {end}, the file has {size} bytes")

    def read(self, name: str) -> npt.NDArray[Any]:
        """One array, checked against its digest."""
        spec = self.specs[name]
        # The constructor found the sizes of all arrays to add up to the file's: this allocates no more than
        # that.
        try:
            array, memory = spec.empty()
        except (ValueError, OverflowError) as error:  # an empty array whose other axes are absurd
            raise self.corrupt(f"array {name!r} has the shape {short(spec.shape)}") from error
        digest = _digest()
        self._file.seek(self._offsets[name])
        for start in range(0, len(memory), CHUNK):
            chunk = memory[start : start + CHUNK]
            if self._file.readinto(chunk) != len(chunk):
                raise self.corrupt(f"it ends inside the array {name!r}")
            digest.update(chunk)
        if digest.hexdigest() != self._digests[name]:
            raise self.corrupt(f"the digest of the array {name!r} does not match its bytes")
        if fault := spec.fault(array):
            raise self.corrupt(f"array {name!r} has {fault}")
        return array.astype(array.dtype.newbyteorder("="), copy=False)

    def corrupt(self, what: str) -> CorruptFile:
        """The error to raise: which file, what was found, what to do."""
        return CorruptFile(
            f"path: {self.path!r} is damaged or was not written by ovk.save: {what}; restore it from a "
            "copy or save the model again"
        )

    def _read_header(self, size: int) -> bytes:
        start = self._file.read(8)
        if len(start) < 8:
            raise self.corrupt(f"it has {len(start)} bytes")
        if not self._file.peek(len(BEGINNING)).startswith(BEGINNING):
            raise CorruptFile(
                f"path: {self.path!r} is not a model of ovk: give a file that `ovk.save`, `ovk fit` or `ovk stream` "
                "wrote"
            )
        (length,) = struct.unpack("<Q", start)
        if length > min(size - 8, HEADER_LIMIT):
            raise self.corrupt(f"it announces a header of {length} bytes, the file has {size}")
        header = self._file.read(length)
        if len(header) != length:
            raise self.corrupt("it ends inside its header")
        return header

    def _manifest_text(self, header: bytes) -> str:
        if not header.isascii():
            raise self.corrupt("its header is not ASCII text")
        metadata = self._parse(header.decode("ascii")).get("__metadata__")
        if not isinstance(metadata, dict) or metadata.keys() != {"ovk.manifest", "ovk.blake2b"}:
            raise self.corrupt("it has no ovk manifest")
        text = metadata["ovk.manifest"]
        if not isinstance(text, str) or not text.isascii():
            raise self.corrupt("its manifest is not ASCII text")
        if _digest(text.encode("ascii")).hexdigest() != metadata["ovk.blake2b"]:
            raise self.corrupt("the digest of its manifest does not match")
        return text

    def _parse(self, text: str) -> dict[str, Any]:
        if _has_too_many_nodes(text, self._size):
            raise self.corrupt(f"it has more lists and objects than a file of {self._size} bytes may have")
        try:
            parsed = json.loads(text, object_pairs_hook=_no_duplicates, parse_constant=_no_constants)
        except RecursionError as error:
            raise self.corrupt("its header is nested too deeply") from error
        except ValueError as error:
            raise self.corrupt(f"its header is not the JSON we write ({error})") from error
        if not isinstance(parsed, dict):
            raise self.corrupt("its header is not a JSON object")
        return parsed

    def _check_version(self, manifest: dict[str, Any]) -> tuple[int, str]:
        number, version = manifest.get("format"), manifest.get("ovk")
        if type(number) is not int or number < 1 or not isinstance(version, str):
            raise self.corrupt(f"its manifest has format {short(number)} and ovk version {short(version)}")
        if number > FORMAT:
            raise NewerFormat(
                f"path: {self.path!r} was written by a newer ovk ({version}, file format {number}); this "
                f"is ovk {__version__}, which reads formats up to {FORMAT}; upgrade ovk"
            )
        return number, version

    def _entry(self, name: str, entry: Any) -> tuple[Spec, str]:
        try:
            dtype, shape, order, digest = (entry[key] for key in ("dtype", "shape", "order", "blake2b"))
        except (TypeError, KeyError, IndexError) as error:
            raise self.corrupt(f"array {name!r} is described by {short(entry)}") from error
        parsed = parse_dtype(dtype)
        sizes = isinstance(shape, list) and all(type(size) is int and size >= 0 for size in shape)
        if parsed is None or not sizes or order not in ("C", "F") or len(entry) != 4:
            raise self.corrupt(f"array {name!r} is described by {short(entry)}")
        return Spec(parsed, tuple(shape), order), digest


def _no_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    unique = dict(pairs)
    if len(unique) != len(pairs):
        raise ValueError("a name stands twice")
    return unique


def _no_constants(name: str) -> float:
    raise ValueError(f"the constant {name}")


# Replace a file as a whole, or not at all.
#
# The new content goes to a temporary file in the same folder (so that the last step is a rename within one
# file system), reaches the disk, and only then takes the old file's name. A reader sees the old file or the
# new one; a crash leaves the old one, and perhaps a `.ovk-*.tmp` beside it.
#
# Such leftovers are removed by the next save in that folder. Who writes a temporary file holds a lock on it,
# which the system releases when the process ends, however it ends: a temporary file that can be locked is
# nobody's. Where there are no locks (Windows), nothing is removed.

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
