"""What learners minimise and how they are measured: losses, penalties, step sizes, metrics."""

from ovk.objectives.calibration import Calibration as Calibration
from ovk.objectives.calibration import ScoreCounts as ScoreCounts
from ovk.objectives.calibration import two_sided as two_sided
from ovk.objectives.losses import (
    EpsilonInsensitive,
    Hinge,
    Huber,
    Logistic,
    Loss,
    Novelty,
    NuHinge,
    NuInsensitive,
    Pinball,
    SimplexHinge,
    Squared,
    as_loss,
    simplex_code,
)
from ovk.objectives.losses import MarginLoss as MarginLoss
from ovk.objectives.losses import ThresholdLoss as ThresholdLoss
from ovk.objectives.metrics import lcr, r2_observed, rsse
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
    "Penalty",
    "Pinball",
    "Schedule",
    "SimplexHinge",
    "Spectral",
    "Squared",
    "Trace",
    "as_loss",
    "as_schedule",
    "lcr",
    "r2_observed",
    "rsse",
    "simplex_code",
]
