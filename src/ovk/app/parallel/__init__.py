"""Fitting from partitions of the data, on the workers of a Dask cluster or on local processes (joblib)."""

from ovk.app.parallel.engines import Pass, WorkersLostError, as_engine, local_cluster
from ovk.app.parallel.fit import PartitionedFit, RidgeLearner, fit
from ovk.app.parallel.partitions import CHUNK_ROWS, Partition, PartitionError

__all__ = ["PartitionError", "WorkersLostError", "fit"]
