"""Structured outputs: regression into the feature space of a kernel on the outputs, pre-images, link prediction."""

from ovk.base import as_adjacency as as_adjacency
from ovk.base import laplacian as laplacian
from ovk.batch import neighbour_graph as neighbour_graph
from ovk.structured.iokr import IOKR
from ovk.structured.label_kernels import Delta, Hierarchy, Jaccard, Kendall, KSpectrum, MeanMap, Mismatch
from ovk.structured.link_prediction import LinkPredictor
from ovk.structured.link_prediction import link_aucs as link_aucs
from ovk.structured.nodes import Diffusion, RandomWalk, RegularisedLaplacian
from ovk.structured.nodes import NodeKernel as NodeKernel
from ovk.structured.outputs import Candidates as Candidates
from ovk.structured.outputs import Generated, PerExample
from ovk.structured.outputs import ObjectKernel as ObjectKernel
from ovk.structured.preimage import ClosedForm as ClosedForm
from ovk.structured.preimage import Decoder as Decoder
from ovk.structured.preimage import GaussianPreimage, LabelThresholds

__all__ = [
    "IOKR",
    "Delta",
    "Diffusion",
    "GaussianPreimage",
    "Generated",
    "Hierarchy",
    "Jaccard",
    "KSpectrum",
    "Kendall",
    "LabelThresholds",
    "LinkPredictor",
    "MeanMap",
    "Mismatch",
    "PerExample",
    "RandomWalk",
    "RegularisedLaplacian",
]
