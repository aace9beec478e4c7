"""Learning from parts of the data wherever they lie: over the workers of a Dask cluster, or over processes (joblib).

Sums over rows add up exactly, so each part is read once, where a worker is free, and only sums travel: landmarks and
widths come from a sample of all parts, one pass makes the sums, a fixed binary tree merges them, one system is solved.
"""

from ovk.app.parallel.engines import WorkersLost
from ovk.app.parallel.engines import as_engine as as_engine
from ovk.app.parallel.engines import local_cluster as local_cluster
from ovk.app.parallel.fit import PartsFit as PartsFit
from ovk.app.parallel.fit import RidgeLearner as RidgeLearner
from ovk.app.parallel.fit import fit
from ovk.app.parallel.parts import CHUNK as CHUNK
from ovk.app.parallel.parts import FilePart as FilePart
from ovk.app.parallel.parts import Part as Part
from ovk.app.parallel.parts import PartError

__all__ = ["PartError", "WorkersLost", "fit"]
