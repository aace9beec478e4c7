"""Random generators, by the state of their bits: what they would have drawn next, they draw after loading.

A generator that two objects draw from is one generator after loading, too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.random import (
    MT19937,
    PCG64,
    PCG64DXSM,
    SFC64,
    BitGenerator,
    Generator,
    Philox,
    RandomState,
    SeedSequence,
)

from ovk.persistence.codec import Builder, Codec, Json, Reader, Writer

BITS: dict[str, type[BitGenerator]] = {kind.__name__: kind for kind in (PCG64, PCG64DXSM, MT19937, Philox, SFC64)}
POOL_LIMIT = 1024  # numpy's default is 4; the pool is allocated from a number in the file


def _encode_generator(value: Generator, writer: Writer) -> Json:
    if (number := writer.number_of_shared(value)) is not None:
        return number
    seed = value.bit_generator.seed_seq
    return writer.entries(
        {
            "state": _supported(value.bit_generator, writer).state,
            # Without it the generator would draw the same numbers, but `spawn` other children.
            "seed": seed.state if type(seed) is SeedSequence else None,
        }
    )


def _encode_legacy(value: RandomState, writer: Writer) -> Json:
    if (number := writer.number_of_shared(value)) is not None:
        return number
    _supported(value._bit_generator, writer)
    return writer.entries({"state": value.get_state(legacy=False)})


def _supported(bits: BitGenerator, writer: Writer) -> BitGenerator:
    if type(bits) not in BITS.values():
        writer.refuse(f"draws from {type(bits).__name__}", f"use one of {', '.join(BITS)}")
    return bits


def _decode(name: str, build: Builder) -> Callable[[Any, Reader], Any]:
    def decode(payload: Any, reader: Reader) -> Any:
        if type(payload) is int:
            return reader.shared[payload]
        reader.shared.append(reader.build(name, reader.entries(payload), {}, build))
        return reader.shared[-1]

    return decode


def _build_generator(name: str, parts: Mapping[str, Any], state: Mapping[str, Any]) -> Generator:
    seed = parts["seed"]
    if seed is not None and not (type(seed["pool_size"]) is int and 4 <= seed["pool_size"] <= POOL_LIMIT):
        raise ValueError(f"a seed with a pool of {seed['pool_size']!r}")
    bits = BITS[parts["state"]["bit_generator"]](0 if seed is None else SeedSequence(**seed))
    _check_positions(parts["state"])
    bits.state = parts["state"]
    _check_same(bits.state, parts["state"])
    return Generator(bits)


def _build_legacy(name: str, parts: Mapping[str, Any], state: Mapping[str, Any]) -> RandomState:
    random = RandomState(BITS[parts["state"]["bit_generator"]](0))
    _check_positions(parts["state"])
    random.set_state(parts["state"])
    _check_same(random.get_state(legacy=False), parts["state"])
    return random


def _check_positions(state: Mapping[str, Any]) -> None:
    """numpy does not check these, and reads whatever memory lies at them."""
    position, end = 0, 0
    if state["bit_generator"] == "MT19937":
        position, end = state["state"]["pos"], 624
    if state["bit_generator"] == "Philox":
        position, end = state["buffer_pos"], 4
    if type(position) is not int or not 0 <= position <= end:
        raise ValueError(f"a random state at the position {position!r}, beyond {end}")


def _check_same(found: Any, wanted: Any) -> None:
    """numpy takes what it is given with few questions: accept only what it reports back unchanged."""
    if isinstance(found, dict) and isinstance(wanted, dict) and found.keys() == wanted.keys():
        for name in found:
            _check_same(found[name], wanted[name])
    elif isinstance(found, np.ndarray) and isinstance(wanted, np.ndarray):
        if found.dtype != wanted.dtype or not np.array_equal(found, wanted):
            raise ValueError("a random state that numpy does not accept")
    elif type(found) is not type(wanted) or found != wanted:
        raise ValueError("a random state that numpy does not accept")


CODECS = (
    Codec("generator", (Generator,), _encode_generator, _decode("numpy.random.Generator", _build_generator)),
    Codec("random_state", (RandomState,), _encode_legacy, _decode("numpy.random.RandomState", _build_legacy)),
)
