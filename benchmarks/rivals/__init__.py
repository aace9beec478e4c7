"""Online kernel learners from the literature, implemented from their papers for comparison; labels are -1 and 1."""

from benchmarks.rivals.fogd import FOGD
from benchmarks.rivals.kons import ConKONS, ProsNKONS
from benchmarks.rivals.nogd import NOGD

__all__ = ["FOGD", "NOGD", "ConKONS", "ProsNKONS"]
