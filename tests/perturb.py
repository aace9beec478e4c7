"""Moving one hyper-parameter of a nested object, by the name that `gradient` gives it."""

import re

import numpy as np
from sklearn.base import clone

from ovk.operators import Dense


def moved(thing, name, step):
    """A copy of `thing` whose parameter `name` (such as ``left__kernel__length_scale[1]``) is larger by `step`."""
    copy = clone(thing)
    owner = copy
    *path, last = name.split("__")
    for part in path:
        owner = _value(owner, *_split(part))
    attribute, index = _split(last)
    value = getattr(owner, attribute)
    if index == ():
        setattr(owner, attribute, value + step)
        return copy
    array = np.array(value, dtype=float)
    array[index] += step
    if isinstance(owner, Dense):
        # Half of it goes to the mirror image: the operator stays symmetric.
        array = (array + array.T) / 2
    setattr(owner, attribute, array)
    return copy


def _split(part):
    found = re.fullmatch(r"(\w+)(?:\[([\d,]+)\])?", part)
    return found[1], tuple(map(int, found[2].split(","))) if found[2] else ()


def _value(owner, attribute, index):
    value = getattr(owner, attribute)
    for i in index:
        value = value[i]
    return value
