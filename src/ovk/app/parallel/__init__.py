"""Learning from partitions of the data: over the workers of a Dask cluster, or over processes (joblib).

Sums over rows add up exactly, so each partition is read once, where a worker is free, and only sums travel: landmarks
and widths come from a sample of all partitions, one pass makes the sums, a fixed binary tree merges them, one system is
solved.
"""

from ovk.app.parallel.engines import Pass as Pass
from ovk.app.parallel.engines import WorkersLost
from ovk.app.parallel.engines import as_engine as as_engine
from ovk.app.parallel.engines import local_cluster as local_cluster
from ovk.app.parallel.fit import PartitionedFit as PartitionedFit
from ovk.app.parallel.fit import RidgeLearner as RidgeLearner
from ovk.app.parallel.fit import fit
from ovk.app.parallel.partitions import CHUNK as CHUNK
from ovk.app.parallel.partitions import Partition as Partition
from ovk.app.parallel.partitions import PartitionError

__all__ = ["PartitionError", "WorkersLost", "fit"]
