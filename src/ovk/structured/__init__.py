"""Structured outputs: regression into the feature space of a kernel on the outputs, pre-images, link prediction."""

from ovk.base import as_adjacency, laplacian
from ovk.batch import neighbour_graph
from ovk.structured.feature_ridge import check_alphas as check_alphas
from ovk.structured.feature_ridge import coordinates_for as coordinates_for
from ovk.structured.feature_ridge import landmarks_among as landmarks_among
from ovk.structured.feature_ridge import operator_on as operator_on
from ovk.structured.feature_ridge import split_kernel as split_kernel
from ovk.structured.iokr import IOKR
from ovk.structured.label_kernels import Delta, Hierarchy, Jaccard, Kendall, KSpectrum, MeanMap, Mismatch
from ovk.structured.link_prediction import LinkPredictor, link_aucs
from ovk.structured.nodes import Diffusion, NodeKernel, RandomWalk, RegularisedLaplacian
from ovk.structured.outputs import Candidates, Generated, ObjectKernel, PerExample
from ovk.structured.outputs import as_outputs as as_outputs
from ovk.structured.outputs import check_lengths as check_lengths
from ovk.structured.outputs import concatenate_outputs as concatenate_outputs
from ovk.structured.outputs import count_outputs as count_outputs
from ovk.structured.outputs import distinct_outputs as distinct_outputs
from ovk.structured.outputs import select_outputs as select_outputs
from ovk.structured.preimage import ClosedForm, Decoder, GaussianPreimage, LabelThresholds
from ovk.structured.preimage import as_decoder as as_decoder
from ovk.structured.regressor import FeatureRegressor

__all__ = [
    "IOKR",
    "Candidates",
    "ClosedForm",
    "Decoder",
    "Delta",
    "Diffusion",
    "FeatureRegressor",
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
