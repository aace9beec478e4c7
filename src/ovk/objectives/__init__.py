"""Losses, penalties, step sizes, metrics and calibration of probabilities."""

from ovk.objectives.calibration import Calibration, MultinomialCalibration, ScoreCounts, two_sided
from ovk.objectives.losses import (
    EpsilonInsensitive,
    Hinge,
    Huber,
    Logistic,
    Loss,
    MarginLoss,
    Novelty,
    NuHinge,
    NuInsensitive,
    Pinball,
    SimplexHinge,
    Squared,
    ThresholdLoss,
    as_loss,
    simplex_code,
)
from ovk.objectives.metrics import lcr, observed, r2_observed, rsse
from ovk.objectives.penalties import L1, L1L2, Frobenius, Penalty, PSDCone, Spectral, Trace
from ovk.objectives.schedules import Constant, DistanceOverGradients, Inverse, InverseSqrt, Schedule, as_schedule

__all__ = [
    "L1",
    "L1L2",
    "Constant",
    "DistanceOverGradients",
    "EpsilonInsensitive",
    "Frobenius",
    "Hinge",
    "Huber",
    "Inverse",
    "InverseSqrt",
    "Logistic",
    "Loss",
    "Novelty",
    "NuHinge",
    "NuInsensitive",
    "PSDCone",
    "Pinball",
    "Schedule",
    "SimplexHinge",
    "Squared",
    "Trace",
    "observed",
    "rsse",
]
