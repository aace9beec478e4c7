"""Files with valid digests whose content no model has: values of other types, arrays of other shapes, nan and inf."""

from __future__ import annotations

import copy
import gzip
import random
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from ovk.persistence import ChangedClassError, CorruptFileError, UnknownClassError, container, load
from ovk.persistence.container import Spec
from ovk.persistence.tree import Writer
from persistence.regenerate import CASES, golden_file
from persistence.toys import places

REJECTIONS = (ChangedClassError, CorruptFileError, UnknownClassError)
JUNK: list[Any] = [None, True, -1, 0, 3, 2**40, 0.5, -0.5, 1e300, "", "x", [], [1], ["x"], {"tuple": []}, {"dict": []}]
JUNK += [{"float": "nan"}, {"float": "inf"}, {"scalar": {"<f8": "000000000000f87f"}}, {"int": hex(2**100)}]
JUNK += [{"object": {"class": "kernels.Linear", "parameters": {}, "state": {}}}]


def golden_content(name: str) -> Any:
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "model.ovk"
        path.write_bytes(gzip.decompress(golden_file(name).read_bytes()))
        return load(path)


def other_array(array: np.ndarray[Any, Any], rng: random.Random) -> np.ndarray[Any, Any]:
    """The array with one number changed to nan, inf or something large, or with another shape or type."""
    if rng.random() < 0.5 and array.dtype.kind in "fiu" and array.size:
        changed = array.copy()
        values = [np.nan, np.inf, -np.inf] if array.dtype.kind == "f" else [2**30, np.iinfo(array.dtype).max]
        changed.reshape(-1)[rng.randrange(array.size)] = rng.choice(values)
        return changed
    others = [array[:0], array[:-1], array[None], array.reshape(-1), np.concatenate([array] * 2)] if array.ndim else []
    others += [array.T, np.zeros(()), np.zeros((2, 3)), np.array(["a", "b"]), np.zeros(array.shape, bool)]
    return rng.choice(others)


def mutated_files(model: Any, path: Path, tries: int, rng: random.Random) -> Iterator[str]:
    """Write files to `path`, each with one change, which is described."""
    writer = Writer()
    tree = writer(model, "model")
    ways = [way for way in places([tree]) if len(way) > 1]
    for _ in range(tries):
        changed: Any = [copy.deepcopy(tree)]
        arrays = dict(writer.arrays)
        if arrays and rng.random() < 0.5:
            name = rng.choice(list(arrays))
            arrays[name] = other_array(arrays[name], rng)
            what = f"{name}: {arrays[name].dtype} {arrays[name].shape} {arrays[name].reshape(-1)[:3]}"
        else:
            *way, last = rng.choice(ways)
            parent = changed
            for key in way:
                parent = parent[key]
            parent[last] = rng.choice(JUNK)
            what = f"{''.join(f'[{key!r}]' for key in way)}[{last!r}] = {parent[last]!r}"
        names = set(_names(changed))
        arrays = {name: array for name, array in arrays.items() if name in names}
        specs = {name: Spec.from_array(array) for name, array in arrays.items()}
        with path.open("wb") as file:
            container.write(file, changed[0], arrays, specs)
        yield what


def _names(node: Any) -> Iterator[str]:
    if isinstance(node, dict):
        if list(node) == ["array"] and isinstance(node["array"], str):
            yield node["array"]
        node = list(node.values())
    for part in node if isinstance(node, list) else ():
        yield from _names(part)


def outcome(name: str, path: Path, expected: list[Any], finite: bool = True) -> str | None:
    """What is wrong with how a mutated golden file is treated; None if it is rejected or predicts numbers."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            model = load(path)
        except REJECTIONS:
            return None
        except Exception as error:
            return f"load raised {type(error).__name__}: {error}"
        try:
            answers = CASES[name][1](model)
        except ValueError:  # parameters are checked when they are used
            return None
        except Exception as error:
            return f"raw {type(error).__name__}: {error}"
    for now, then in zip(answers, expected, strict=True):
        # Some models answer nan where a row is missing.
        wanted = np.isfinite(then) if np.shape(now) == np.shape(then) else np.ones(np.shape(now), bool)
        if finite and not np.isfinite(now)[wanted].all():
            return "answers that are not finite"
    return None
