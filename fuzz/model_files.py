"""Saved models with bits flipped, spans cut, doubled, moved and overwritten: `load` refuses all of them."""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np

import ovk
from learners import EVERY, begun
from ovk.persistence import ChangedClassError, CorruptFileError, NewerFormatError, UnknownClassError

REJECTIONS = (ChangedClassError, CorruptFileError, NewerFormatError, UnknownClassError)


def tries(rng: np.random.Generator) -> Iterator[str | None]:
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "model.ovk"
        files = {}
        for name in EVERY:
            ovk.save(begun(name), path)
            files[name] = path.read_bytes()
        while True:
            name = list(files)[rng.integers(len(files))]
            damaged = mutated(files[name], rng)
            if damaged == files[name]:
                continue
            path.write_bytes(damaged)
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("error")
                    ovk.load(path)
            except REJECTIONS:
                yield None
            except Exception as error:
                yield f"a damaged file of {name} raised {type(error).__name__}: {error}"
            else:
                yield f"a damaged file of {name} was loaded"


def mutated(raw: bytes, rng: np.random.Generator) -> bytes:
    """The bytes with one to four mutations."""
    data = bytearray(raw)
    for _ in range(rng.integers(1, 5)):
        # Half of the mutations in the first bytes, which contain the structure.
        end = len(data) if rng.random() < 0.5 else min(len(data), 4000)
        if end < 2:
            break
        i, j = np.sort(rng.integers(0, end, 2))
        j = min(j, i + int(rng.integers(1, 60)))
        kind = rng.integers(6)
        if kind == 0:
            data[i] ^= 1 << int(rng.integers(8))
        elif kind == 1:
            del data[i:j]
        elif kind == 2:
            data[i:i] = data[i:j]
        elif kind == 3:
            data[i:j] = rng.bytes(j - i)
        elif kind == 4:
            del data[i:]
        else:
            data[i:j] = bytes(b'0123456789{}[]",:ntf'[k] for k in rng.integers(0, 20, j - i))
    return bytes(data)
