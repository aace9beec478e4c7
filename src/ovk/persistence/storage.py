"""How one array lies in the container: its dtype, shape and order, and the plain numbers it is written as.

The container knows booleans, integers and floats. The rest is written as those, with one more axis where
needed:

    str_ of n        (..., n) uint32: code points
    bytes_ of n      (..., n) uint8
    datetime64, timedelta64   int64 counts of their unit

Numbers are little-endian. An array in Fortran order is written as its transpose, and read back in Fortran
order: no copy is made, and matrix products of the loaded array round exactly as those of the saved one.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

NUMBERS = {
    "|b1": "BOOL", "|i1": "I8", "<i2": "I16", "<i4": "I32", "<i8": "I64",
    "|u1": "U8", "<u2": "U16", "<u4": "U32", "<u8": "U64", "<f2": "F16", "<f4": "F32", "<f8": "F64",
}  # fmt: skip
WIDTHS = {
    "BOOL": 1, "I8": 1, "U8": 1, "I16": 2, "U16": 2, "F16": 2,
    "I32": 4, "U32": 4, "F32": 4, "I64": 8, "U64": 8, "F64": 8,
}  # fmt: skip
TEXT = re.compile(r"(<U|\|S)([1-9][0-9]{0,8})")
TIME = re.compile(r"<[Mm]8(\[([1-9][0-9]{0,8})?[A-Za-z]{1,2}\])?")
SAVED_DTYPES = "bool, integers, float16 to float64, str, bytes, datetime64 or timedelta64"


def primitive(dtype: str) -> tuple[str, tuple[int, ...]] | None:
    """Container type and trailing shape of one element of a little-endian dtype; None if there is none."""
    if dtype in NUMBERS:
        return NUMBERS[dtype], ()
    if match := TEXT.fullmatch(dtype):
        return ("U32" if match[1] == "<U" else "U8"), (int(match[2]),)
    if TIME.fullmatch(dtype):
        return "I64", ()
    return None


def parse_dtype(text: Any) -> np.dtype[Any] | None:
    """The dtype that numpy writes as `text`, or None if it is not one that a file may hold."""
    # The list above comes before numpy: what `np.dtype` accepts (records, nested shapes) is far more than
    # is meant.
    if not isinstance(text, str) or primitive(text.replace(">", "<", 1)) is None:
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
        if array.dtype.kind not in "biufUSMm":  # the others may not even have a byte order
            return None
        dtype = parse_dtype(array.dtype.newbyteorder("<").str)
        if dtype is None:
            return None
        fortran = array.flags.f_contiguous and not array.flags.c_contiguous
        return cls(dtype, array.shape, "F" if fortran else "C")

    @property
    def kind(self) -> str:
        """The container's word for the numbers: ``F64``, ``I32``, ..."""
        return self._primitive[0]

    @property
    def stored_shape(self) -> tuple[int, ...]:
        """The shape that stands in the container's header."""
        return (self.shape if self.order == "C" else self.shape[::-1]) + self._primitive[1]

    @property
    def nbytes(self) -> int:
        """Bytes in the file. Python integers: a hostile shape cannot overflow."""
        return math.prod(self.stored_shape) * WIDTHS[self.kind]

    @property
    def _primitive(self) -> tuple[str, tuple[int, ...]]:
        found = primitive(self.dtype.str)
        assert found is not None, "a Spec is made from dtypes that `parse_dtype` let through"
        return found

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
