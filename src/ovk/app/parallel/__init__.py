"""Learning from partitions of the data: over the workers of a Dask cluster, or over processes (joblib).

Sums over rows add up exactly, so each partition is read once, where a worker is free, and only sums travel: landmarks
and widths come from a sample of all partitions, one pass makes the sums, a fixed binary tree merges them, one system is
solved.
"""

from ovk.app.parallel.engines import Pass, WorkersLost, as_engine, local_cluster
from ovk.app.parallel.fit import PartitionedFit, RidgeLearner, fit
from ovk.app.parallel.partitions import CHUNK, Partition, PartitionError

__all__ = ["PartitionError", "WorkersLost", "fit"]
