"""The file format: a safetensors container whose header contains our manifest.

    8 bytes     length of the header, little-endian
    header      JSON, padded with spaces so that the arrays start at a multiple of 8:
                    {"__metadata__": {"ovk.manifest": <text>, "ovk.blake2b": <digest of the text>},
                     <array>: {"dtype": "F64", "shape": [...], "data_offsets": [begin, end]}, ...}
    arrays      in descending order of item size, so that every array is aligned without gaps

We do not use the safetensors library, because every bit is checked here: lengths by the file's size, before memory is
allocated; the header by the manifest, which determines it; manifest and arrays by their digests. Arrays are read and
written one at a time, without a second copy in memory.

Reading takes time and memory proportional to the file. A pair of brackets takes two bytes in the file but a hundred in
memory, so a file may have at most 100,000 lists and objects, plus one for every 6 bytes of its size.
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
from ovk.persistence.errors import CorruptFileError, NewerFormatError, NotSavableError

if sys.platform != "win32":
    import fcntl

# Storage of one array. The container supports booleans, integers and floats; other types are stored as these:
#
#     str_ of n        (..., n) uint32: code points
#     bytes_ of n      (..., n) uint8
#     datetime64, timedelta64   int64 counts of their unit
#
# Numbers are little-endian. An array in Fortran order is stored as its transpose and read in Fortran order, without a
# copy, so that matrix products of the loaded array round exactly as those of the saved one.

#: The dtype strings that a file may contain. `np.dtype` accepts many more (records, nested shapes).
DTYPE_PATTERN = re.compile(r"\|[biu]1|<[iuf][248]|(<U|\|S)[1-9][0-9]{0,8}|<[Mm]8(\[([1-9][0-9]{0,8})?[A-Za-z]{1,2}\])?")
SAVED_DTYPES = "bool, integers, float16 to float64, str, bytes, datetime64 or timedelta64"
TYPE_LETTERS = {"S": "U", "M": "I", "m": "I"}  # the container's type letters that differ from NumPy's


def parse_dtype(text: Any) -> np.dtype[Any] | None:
    """The little-endian dtype with this string, or None if files may not contain it."""
    if not isinstance(text, str) or DTYPE_PATTERN.fullmatch(text) is None:
        return None
    try:
        dtype = np.dtype(text)
    except (TypeError, ValueError):
        return None
    return dtype if dtype.str == text else None


@dataclass(frozen=True)
class Spec:
    """The layout of a stored array."""

    dtype: np.dtype[Any]  # little-endian
    shape: tuple[int, ...]
    order: str  # "C" or "F"

    @classmethod
    def from_array(cls, array: npt.NDArray[Any]) -> Spec | None:
        """The layout of an array in memory, or None if its dtype cannot be stored."""
        known = array.dtype.kind in "biufUSMm"  # other kinds may have no byte order
        dtype = parse_dtype(array.dtype.newbyteorder("<").str) if known else None
        if dtype is None:
            return None
        fortran = array.flags.f_contiguous and not array.flags.c_contiguous
        return cls(dtype, array.shape, "F" if fortran else "C")

    @property
    def width(self) -> int:
        """Bytes of one number, or of one character."""
        return {"U": 4, "S": 1}.get(self.dtype.kind, self.dtype.itemsize)

    @property
    def kind(self) -> str:
        """The container's name of the type: ``F64``, ``I32``, ..."""
        letter = TYPE_LETTERS.get(self.dtype.kind, self.dtype.kind.upper())
        return "BOOL" if letter == "B" else f"{letter}{8 * self.width}"

    @property
    def stored_shape(self) -> tuple[int, ...]:
        """The shape in the container's header."""
        letters = (self.dtype.itemsize // self.width,) if self.dtype.kind in "US" else ()
        return (self.shape if self.order == "C" else self.shape[::-1]) + letters

    @property
    def nbytes(self) -> int:
        """Bytes in the file, as a Python integer, which a malicious shape cannot overflow."""
        return math.prod(self.shape) * self.dtype.itemsize

    def to_bytes(self, array: npt.NDArray[Any]) -> memoryview:
        """The bytes to write: a view of `array` if it is contiguous and little-endian, else a copy."""
        ordered = array if self.order == "C" else array.T
        return np.ascontiguousarray(ordered, dtype=self.dtype).reshape(-1).view(np.uint8).data

    def empty(self) -> tuple[npt.NDArray[Any], memoryview]:
        """An uninitialised array, and its memory."""
        flat = np.empty(math.prod(self.shape), dtype=self.dtype)
        array = flat.reshape(self.shape, order="C" if self.order == "C" else "F")
        return array, flat.view(np.uint8).data

    def fault(self, array: npt.NDArray[Any]) -> str | None:
        """An invalid boolean or character in an array, if there is one."""
        if array.size == 0:
            return None
        flat = array.reshape(-1, order="C" if self.order == "C" else "F")
        if array.dtype.kind == "b" and flat.view(np.uint8).max() > 1:
            return "a boolean that is neither 0 nor 1"
        if array.dtype.kind == "U" and flat.view(self.dtype.str[0] + "u4").max() > 0x10FFFF:
            return "a character beyond U+10FFFF"
        return None


FORMAT = 1
MAX_HEADER_BYTES = 100_000_000  # as in the safetensors library
MAX_FREE_NODES, BYTES_PER_NODE = 100_000, 6  # lists and objects in a file, see above
CHUNK_BYTES = 1 << 20  # hashed while they are in the processor's cache
NO_DIGEST = "0" * 32
#: A JSON string, possibly unterminated; the pattern does not backtrack.
JSON_STRING = re.compile(r'"[^"\\]*+(?:\\(?:.|\Z)[^"\\]*+)*+(?:"|\Z)', re.DOTALL)


def _digest(data: bytes = b"") -> blake2b:
    return blake2b(data, digest_size=16)


def _json(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=True, allow_nan=False)


def _has_too_many_nodes(text: str, size: int) -> bool:
    """Whether a JSON text has more lists and objects than a file of that size may have."""
    bare = JSON_STRING.sub("", text)
    return bare.count("[") + bare.count("{") > MAX_FREE_NODES + size // BYTES_PER_NODE


HEADER_START = b'{"'  # the beginning of the header in every file that we write


def _header(manifest: str, specs: Mapping[str, Spec]) -> bytes:
    """Length and header of a file with this manifest and these arrays."""
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
    """Write a tree and its arrays to an empty file."""
    specs = dict(sorted(specs.items(), key=lambda item: -item[1].width))
    digests = dict.fromkeys(specs, NO_DIGEST)

    def manifest() -> str:
        table = {
            name: {"dtype": spec.dtype.str, "shape": spec.shape, "order": spec.order, "blake2b": digests[name]}
            for name, spec in specs.items()
        }
        return _json({"format": FORMAT, "ovk": __version__, "value": value, "arrays": table})

    # The digests precede the arrays but are known only after them. They have a fixed width, so the header is written
    # twice, and each array is read (and, if not contiguous, copied) once.
    text = manifest()
    provisional = _header(text, specs)
    if len(provisional) > MAX_HEADER_BYTES:
        raise NotSavableError(
            f"model has {len(provisional) / 1e6:.0f} MB of parameters, at most {MAX_HEADER_BYTES / 1e6:.0f} MB are "
            "supported; store long lists and dicts of numbers as NumPy arrays"
        )
    if _has_too_many_nodes(text, len(provisional) + sum(spec.nbytes for spec in specs.values())):
        what = f"more than {MAX_FREE_NODES:,} small lists, tuples, dicts and sets"
        raise NotSavableError(f"model has {what}; store them as NumPy arrays")
    file.write(provisional)
    for name, spec in specs.items():
        digest = _digest()
        raw = spec.to_bytes(arrays[name])
        for start in range(0, len(raw), CHUNK_BYTES):
            chunk = raw[start : start + CHUNK_BYTES]
            digest.update(chunk)
            file.write(chunk)
        digests[name] = digest.hexdigest()
    file.seek(0)
    file.write(_header(manifest(), specs))


class Container:
    """An open file with a checked header; arrays are read one at a time."""

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
            raise self.corrupt(f"its arrays end at byte {end}, but the file has {size} bytes")

    def read(self, name: str) -> npt.NDArray[Any]:
        """One array, checked against its digest."""
        spec = self.specs[name]
        # The constructor has checked that the sizes of all arrays add up to that of the file.
        try:
            array, memory = spec.empty()
        except (ValueError, OverflowError) as error:  # an empty array with huge other axes
            raise self.corrupt(f"array {name!r} has the shape {short(spec.shape)}") from error
        digest = _digest()
        self._file.seek(self._offsets[name])
        for start in range(0, len(memory), CHUNK_BYTES):
            chunk = memory[start : start + CHUNK_BYTES]
            if self._file.readinto(chunk) != len(chunk):
                raise self.corrupt(f"it ends inside the array {name!r}")
            digest.update(chunk)
        if digest.hexdigest() != self._digests[name]:
            raise self.corrupt(f"the digest of the array {name!r} does not match its bytes")
        if fault := spec.fault(array):
            raise self.corrupt(f"array {name!r} has {fault}")
        return array.astype(array.dtype.newbyteorder("="), copy=False)

    def corrupt(self, what: str) -> CorruptFileError:
        return CorruptFileError(
            f"{self.path!r} is damaged or was not written by ovk.save: {what}; restore it from a copy or save the "
            "model again"
        )

    def _read_header(self, size: int) -> bytes:
        start = self._file.read(8)
        if len(start) < 8:
            raise self.corrupt(f"it has {len(start)} bytes")
        if not self._file.peek(len(HEADER_START)).startswith(HEADER_START):
            advice = "pass a file written by ovk.save, `ovk fit` or `ovk stream`"
            raise CorruptFileError(f"{self.path!r} is not a model of ovk: {advice}")
        (length,) = struct.unpack("<Q", start)
        if length > min(size - 8, MAX_HEADER_BYTES):
            raise self.corrupt(f"its header should have {length} bytes, but the file has {size}")
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
            raise self.corrupt(f"it has too many lists and objects for a file of {self._size} bytes")
        try:
            parsed = _DECODER.decode(text)
        except RecursionError as error:
            raise self.corrupt("its header is nested too deeply") from error
        except ValueError as error:
            raise self.corrupt(f"its header is not valid JSON ({error})") from error
        if not isinstance(parsed, dict):
            raise self.corrupt("its header is not a JSON object")
        return parsed

    def _check_version(self, manifest: dict[str, Any]) -> tuple[int, str]:
        number, version = manifest.get("format"), manifest.get("ovk")
        if type(number) is not int or number < 1 or not isinstance(version, str):
            raise self.corrupt(f"its manifest has format {short(number)} and ovk version {short(version)}")
        if number > FORMAT:
            raise NewerFormatError(
                f"{self.path!r} was written by a newer ovk ({version}, file format {number}); this is ovk "
                f"{__version__}, which reads formats up to {FORMAT}; upgrade ovk"
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
        raise ValueError("duplicate name")
    return unique


def _no_constants(name: str) -> float:
    raise ValueError(f"the constant {name}")


# `save` writes neither: infinite numbers and long integers have tags, see `ovk.persistence.tree`.


def _finite_float(text: str) -> float:
    value = float(text)
    if not math.isfinite(value) or repr(value) != text:
        raise ValueError(f"the number {short(text)}")
    return value


def _short_int(text: str) -> int:
    if len(text) > 20 or not -(2**63) <= int(text) < 2**63:
        raise ValueError(f"the number {short(text)}")
    return int(text)


_DECODER = json.JSONDecoder(
    object_pairs_hook=_no_duplicates, parse_constant=_no_constants, parse_float=_finite_float, parse_int=_short_int
)


# Atomic replacement of a file.
#
# The new content is written to a temporary file in the same directory and synced to disk; then the file is renamed.
# Readers see the old file or the new one. A crash leaves the old one, and possibly a `.ovk-*.tmp` file, which the next
# save in that directory removes: a writer locks its temporary file until its process ends, so a file that can be locked
# is abandoned. Without locks (Windows) nothing is removed.

HAS_LOCKS = sys.platform != "win32"
TEMP_PREFIX, TEMP_SUFFIX = ".ovk-", ".tmp"

#: Errors of a write to a full disk, or beyond a quota or a limit of the process.
NO_SPACE_ERRORS = {errno.ENOSPC, errno.EFBIG, getattr(errno, "EDQUOT", errno.ENOSPC)}


@contextmanager
def replacing(path: str) -> Iterator[BinaryIO]:
    """Open a file for writing that replaces `path` if the block ends without an error."""
    target = os.path.realpath(path)  # follows symbolic links, which remain links
    directory = os.path.dirname(target)
    if not os.path.isdir(directory):
        raise FileNotFoundError(f"path: the directory {directory!r} does not exist")
    permissions = _permissions(target)
    remove_leftovers(directory)
    temporary, descriptor = _create(directory, permissions)
    try:
        with open(descriptor, "wb") as file:
            if permissions is not None:
                os.chmod(temporary, permissions)  # undo the umask before the first byte
            yield file
            file.flush()
            os.fsync(file.fileno())
            if HAS_LOCKS:  # closing the file releases the lock, and another process could remove it
                os.replace(temporary, target)
        if not HAS_LOCKS:  # Windows cannot rename open files
            os.replace(temporary, target)
    except BaseException as error:
        with suppress(OSError):
            os.unlink(temporary)
        if isinstance(error, OSError) and error.errno in NO_SPACE_ERRORS and error.filename is None:
            error.filename = path  # errors of a write have none
        raise
    sync_directory(directory)


def _create(directory: str, permissions: int | None) -> tuple[str, int]:
    """Name and descriptor of a new, locked temporary file."""
    # The files of `tempfile` are private (0o600), and the umask cannot be read without changing it for all threads.
    # Here the kernel applies it.
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
    while True:
        temporary = os.path.join(directory, f"{TEMP_PREFIX}{secrets.token_hex(8)}{TEMP_SUFFIX}")
        descriptor = os.open(temporary, flags, 0o666 if permissions is None else permissions)
        if not HAS_LOCKS:
            return temporary, descriptor
        with suppress(OSError):  # a file system without locks
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        if os.fstat(descriptor).st_nlink > 0:
            return temporary, descriptor
        os.close(descriptor)  # another process removed it before it was locked


def remove_leftovers(directory: str) -> None:
    """Remove the temporary files of processes that have ended."""
    leftovers: list[str] = []
    with suppress(OSError):  # a directory that may be written but not listed
        names = os.listdir(directory)
        leftovers = [name for name in names if name.startswith(TEMP_PREFIX) and name.endswith(TEMP_SUFFIX)]
    for name in leftovers if HAS_LOCKS else ():
        path = os.path.join(directory, name)
        with suppress(OSError):
            descriptor = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK)
            try:
                if stat.S_ISREG(os.fstat(descriptor).st_mode):
                    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    os.unlink(path)
            finally:
                os.close(descriptor)


def _permissions(target: str) -> int | None:
    """Permission bits of the file to be replaced, or None if there is none."""
    try:
        mode = os.stat(target).st_mode
    except FileNotFoundError:
        return None
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(f"path must be a file, got the directory {target!r}")
    if not stat.S_ISREG(mode):
        raise ValueError(f"path must be a regular file, got the device or pipe {target!r}")
    if not os.access(target, os.W_OK):
        # A rename checks the permissions of the directory only.
        raise PermissionError(f"path: the file {target!r} is read-only; make it writable or save elsewhere")
    return stat.S_IMODE(mode) & 0o777


def sync_directory(directory: str) -> None:
    """Sync a renamed file's directory, so that the new name survives a power failure; ignored where not supported."""
    with suppress(OSError):
        descriptor = os.open(directory, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
