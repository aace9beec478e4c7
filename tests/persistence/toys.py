"""Small classes to save, and what it means for two values to be the same.

Import it as `persistence.toys` (``tests`` is on the path): the classes stand in golden files under that name.
"""

from __future__ import annotations

import copy
import hashlib
import json
import math
import random
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from ovk.base.parameters import Parameters, Registered
from ovk.persistence import load, save


class Kernel(Parameters):
    def __init__(self, scale=1.0, transforms=()):
        self.scale = scale
        self.transforms = transforms


class Ridge(Parameters):
    """An estimator: fitted attributes, one private piece of state, one thing that is not saved."""

    _saved_state = ("_rng",)

    def __init__(self, kernel=None, lambda_=1.0, labels=None):
        self.kernel = kernel
        self.lambda_ = lambda_
        self.labels = labels

    def fit(self, X, Y):
        self._rng = np.random.default_rng(0)
        self._scratch = object()
        self.X_ = X
        self.coef_ = Y
        self.feature_names_in_ = np.array([f"x{i}" for i in range(X.shape[1])], dtype=object)
        self.n_features_in_ = X.shape[1]
        return self

    def draw(self):
        return self._rng.standard_normal(3)


class Budgeted(Ridge):
    """A subclass with private state in addition to that of its base."""

    _saved_state = ("_count",)


@dataclass(frozen=True, slots=True)
class Window(Registered):
    size: int
    step: float = 0.5


@dataclass
class Record(Registered):
    values: Any
    note: str = ""

    def __post_init__(self):
        if self.note == "forbidden":
            raise ValueError("note must not be forbidden")


def same(a: Any, b: Any) -> bool:
    """Whether two values are of the same types and, bit for bit, hold the same things."""
    if type(a) is not type(b):
        return False
    if isinstance(a, float):
        return struct.pack("<d", a) == struct.pack("<d", b) or (math.isnan(a) and math.isnan(b))
    if isinstance(a, (np.str_, np.bytes_)):
        return bool(a == b)
    if isinstance(a, np.generic):
        return a.dtype == b.dtype and a.tobytes() == b.tobytes()
    if isinstance(a, np.ndarray):
        if a.shape != b.shape or a.dtype != b.dtype:
            return False
        if a.dtype == object:
            return all(same(x, y) for x, y in zip(a.flat, b.flat, strict=True))
        return a.tobytes() == b.tobytes()
    if sparse.issparse(a):
        parts = ("data", "coords") if a.format == "coo" else ("data", "indices", "indptr")
        return a.shape == b.shape and all(same(getattr(a, part), getattr(b, part)) for part in parts)
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(same(x, y) for x, y in zip(a, b, strict=True))
    if isinstance(a, dict):
        return same(list(a.items()), list(b.items()))
    if isinstance(a, (set, frozenset)):
        return same(sorted(map(repr, a)), sorted(map(repr, b)))
    if isinstance(a, np.random.Generator):
        return same(a.bit_generator.state, b.bit_generator.state)
    if isinstance(a, np.random.RandomState):
        return same(a.get_state(legacy=False), b.get_state(legacy=False))
    if isinstance(a, Parameters):
        hidden = ("_memo", "_scratch")
        return same(*({k: vars(x)[k] for k in sorted(vars(x)) if k not in hidden} for x in (a, b)))
    if is_dataclass(a):
        return all(same(getattr(a, f.name), getattr(b, f.name)) for f in fields(a))
    return bool(a == b)


def parts_of(path: Path) -> tuple[dict[str, Any], dict[str, Any], bytes]:
    """Header, manifest and array bytes of a file, parsed independently of the library."""
    raw = path.read_bytes()
    (length,) = struct.unpack("<Q", raw[:8])
    header = json.loads(raw[8 : 8 + length])
    return header, json.loads(header["__metadata__"]["ovk.manifest"]), raw[8 + length :]


def forge(path: Path, edit: Callable[[dict[str, Any], dict[str, Any]], Any]) -> None:
    """Change a file's manifest and header on purpose, and put digests that fit: what an attacker can do."""
    header, manifest, data = parts_of(path)
    edit(manifest, header)
    write(path, header, json.dumps(manifest, separators=(",", ":")), data)


def write(path: Path, header: dict[str, Any], manifest: str, data: bytes = b"") -> None:
    """A file with this manifest and a digest that fits it."""
    digest = hashlib.blake2b(manifest.encode(), digest_size=16).hexdigest()
    header = {**header, "__metadata__": {"ovk.manifest": manifest, "ovk.blake2b": digest}}
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def places(node: Any, way: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The ways to all nodes of a JSON tree."""
    yield way
    children = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    for key, child in children:
        yield from places(child, (*way, key))


def edited_manifests(manifest: dict[str, Any], count: int, generator: random.Random) -> Iterator[dict[str, Any]]:
    """Manifests in each of which something is missing, renamed, or replaced by something else."""
    ways = [way for way in places(manifest) if way]
    kernel = {"class": "persistence.toys.Kernel", "parameters": {}, "state": {}}
    junk = [None, True, -1, 0, 3, 2**40, 2**100, 0.5, "", "x", "coef_", [], [1], {}]
    junk += [{"tuple": []}, {"array": "x"}, {"int": "0x1"}, {"object": kernel}]
    for _ in range(count):
        edited = copy.deepcopy(manifest)
        *way, last = generator.choice(ways)
        parent = edited
        for key in way:
            parent = parent[key]
        action = generator.randrange(4)
        if action == 0:
            del parent[last]
        elif action == 1 and isinstance(parent, dict):
            parent[generator.choice(["x", "coef_", "tuple", "class"])] = parent.pop(last)
        else:
            other: Any = edited
            for key in generator.choice(ways) if action == 2 else ():
                if not isinstance(other, (dict, list)) or (isinstance(other, dict) and key not in other):
                    break
                other = other[key]
            parent[last] = copy.deepcopy(other) if action == 2 else generator.choice(junk)
        yield edited


def trip(value, path):
    """What comes back from a file."""
    save(value, path)
    return load(path)
