"""Merging in a fixed binary tree: the same items in the same order give the same bits, whoever was ready first.

    ((0 1)(2 3)) ((4 5) 6)

Floating point sums depend on their order, so the order must not depend on the clock. The tree is that of a binary
counter: an item that arrives is merged with what stands before it as long as both hold equally many, and the rest is
merged from the right at the end. At most log2(n) + 1 items are held at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Generic, TypeVar

Item = TypeVar("Item")


class MergeTree(Generic[Item]):
    """Merges items as they arrive, neighbours first.

    Parameters
    ----------
    merge : makes one item of two neighbours, the earlier one first

    Examples
    --------
    >>> from ovk.features import MergeTree
    >>> tree = MergeTree(lambda a, b: f"({a} {b})")
    >>> for i in range(7):
    ...     tree.add(str(i))
    >>> tree.result()
    '(((0 1) (2 3)) ((4 5) 6))'
    """

    def __init__(self, merge: Callable[[Item, Item], Item]) -> None:
        self._merge = merge
        #: Items with the number of leaves below each, which are falling powers of two.
        self._held: list[tuple[int, Item]] = []

    def add(self, item: Item) -> None:
        """Add the next item."""
        size = 1
        while self._held and self._held[-1][0] == size:
            size, item = 2 * size, self._merge(self._held.pop()[1], item)
        self._held.append((size, item))

    def result(self) -> Item:
        """All items merged."""
        if not self._held:
            raise ValueError("there is nothing to merge: add at least one item")
        _, result = self._held.pop()
        while self._held:
            result = self._merge(self._held.pop()[1], result)
        return result


def merge_all(items: Iterable[Item], merge: Callable[[Item, Item], Item]) -> Item:
    """Merge items in a fixed binary tree.

    Parameters
    ----------
    items : at least one, in their order; an iterator is gone through once
    merge : makes one item of two neighbours, the earlier one first; it may change the earlier one

    Examples
    --------
    Models of parts of the data, merged into the model of all of them:

    >>> import numpy as np
    >>> from ovk import OVKRidge
    >>> from ovk.features import merge_all
    >>> from ovk.kernels import Gaussian
    >>> X = np.linspace(0, 6, 90)[:, None]
    >>> parts = [OVKRidge(Gaussian(1.0), landmarks=X[::10]).fit(X[i::3], np.sin(X[i::3])) for i in range(3)]
    >>> model = merge_all(parts, lambda a, b: a.merge(b))
    >>> whole = OVKRidge(Gaussian(1.0), landmarks=X[::10]).fit(X, np.sin(X))
    >>> np.allclose(model.predict(X), whole.predict(X))
    True
    """
    tree = MergeTree(merge)
    for item in items:
        tree.add(item)
    return tree.result()
