"""Structured outputs: regression into the feature space of a kernel on the outputs, pre-images, link prediction."""

from ovk.structured.iokr import IOKR
from ovk.structured.label_kernels import Delta, Hierarchy, Jaccard, Kendall, KSpectrum
from ovk.structured.link_prediction import LinkPredictor, link_aucs
from ovk.structured.nodes import Diffusion, RegularizedLaplacian
from ovk.structured.outputs import Generated, PerExample
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
    "PerExample",
    "RegularizedLaplacian",
]
