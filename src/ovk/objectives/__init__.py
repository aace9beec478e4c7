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
)
from ovk.objectives.losses import MarginLoss as MarginLoss
from ovk.objectives.losses import ThresholdLoss as ThresholdLoss
from ovk.objectives.losses import as_loss as as_loss
from ovk.objectives.losses import simplex_code as simplex_code
from ovk.objectives.metrics import lcr, rsse
from ovk.objectives.metrics import r2_observed as r2_observed
from ovk.objectives.penalties import L1, L1L2, Frobenius, Penalty, PSDCone, Trace
from ovk.objectives.penalties import Spectral as Spectral
from ovk.objectives.schedules import Constant, DistanceOverGradients, Inverse, InverseSqrt
from ovk.objectives.schedules import Schedule as Schedule
from ovk.objectives.schedules import as_schedule as as_schedule

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
    "SimplexHinge",
    "Squared",
    "Trace",
    "lcr",
    "rsse",
]
