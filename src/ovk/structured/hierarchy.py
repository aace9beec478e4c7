"""Labels that stand in a hierarchy."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any

from ovk._validation import in_interval
from ovk.structured.counted import CountedKernel


class Hierarchy(CountedKernel):
    """k(y, z) = sum of the weights of the nodes that lie above (or at) both y and z; a node at depth j has decay^j.

    A mistake between siblings is smaller than one across the tree. An output is a node of the hierarchy, inner nodes
    included, or a collection of nodes (a label set closed upwards: the nodes above any of them).

    Parameters
    ----------
    parents : mapping child -> parent
        Nodes without a parent are roots (depth 0).
    decay : float > 0
        Below 1, what is shared near the root weighs more.
    normalise : bool
        Divide by the norms. Without it deep labels have larger norms than shallow ones.

    Examples
    --------
    >>> from ovk.structured import Hierarchy
    >>> k = Hierarchy({"cat": "pet", "dog": "pet", "pet": "animal", "wolf": "animal"})
    >>> k(["cat"], ["cat", "dog", "wolf", "animal"])
    array([[3., 2., 1., 1.]])
    """

    def __init__(self, parents: Mapping[Any, Any], decay: float = 1.0, normalise: bool = False) -> None:
        self.parents = parents
        self.decay = decay
        self.normalise = normalise

    def _above(self, node: Any) -> list[Hashable]:
        """From the root down to the node."""
        if node not in self.parents and node not in self.parents.values():
            raise ValueError(f"the label {node!r} is not in the hierarchy: add it to parents")
        way = [node]
        while way[-1] in self.parents:
            above = self.parents[way[-1]]
            if above in way:
                raise ValueError(f"parents has a cycle through {above!r}")
            way.append(above)
        return way[::-1]

    def parts(self, one: Any) -> Mapping[Hashable, float]:
        # Each side carries the square root of the weight.
        decay = in_interval(self.decay, "decay", 1e-6, 1e6)
        several = isinstance(one, (list, set, frozenset))
        nodes = {above: depth for node in (one if several else [one]) for depth, above in enumerate(self._above(node))}
        return {node: decay ** (0.5 * depth) for node, depth in nodes.items()}
