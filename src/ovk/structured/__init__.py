"""Structured outputs: regression into the feature space of a kernel on the outputs, pre-images, link prediction."""

from ovk.base import as_adjacency, laplacian
from ovk.batch import neighbour_graph
from ovk.structured.iokr import IOKR
from ovk.structured.label_kernels import Delta, Hierarchy, Jaccard, Kendall, KSpectrum, MeanMap, Mismatch
from ovk.structured.link_prediction import LinkPredictor, link_aucs
from ovk.structured.nodes import Diffusion, NodeKernel, RandomWalk, RegularisedLaplacian
from ovk.structured.outputs import Candidates, Generated, ObjectKernel, PerExample
from ovk.structured.preimage import ClosedForm, Decoder, GaussianPreimage, LabelThresholds

__all__ = [
    "IOKR",
    "Candidates",
    "ClosedForm",
    "Decoder",
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
    "NodeKernel",
    "ObjectKernel",
    "PerExample",
    "RandomWalk",
    "RegularisedLaplacian",
    "as_adjacency",
    "laplacian",
    "link_aucs",
    "neighbour_graph",
]
