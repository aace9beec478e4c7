"""What learners minimise and how they are measured: losses, penalties, step sizes, metrics."""

from ovk.objectives.calibration import Calibration as Calibration
from ovk.objectives.calibration import ScoreCounts as ScoreCounts
from ovk.objectives.calibration import two_sided as two_sided
from ovk.objectives.losses import (
    EpsilonInsensitive,
    Hinge,
    Huber,
    Logistic,
    Novelty,
    NuHinge,
    NuInsensitive,
    Pinball,
    SimplexHinge,
    Squared,
)
from ovk.objectives.losses import Loss as Loss
from ovk.objectives.losses import MarginLoss as MarginLoss
from ovk.objectives.losses import ThresholdLoss as ThresholdLoss
from ovk.objectives.losses import as_loss as as_loss
from ovk.objectives.losses import simplex_code as simplex_code
from ovk.objectives.metrics import lcr as lcr
from ovk.objectives.metrics import r2_observed as r2_observed
from ovk.objectives.metrics import rsse
from ovk.objectives.penalties import L1, L1L2, Frobenius, PSDCone, Trace
from ovk.objectives.penalties import Penalty as Penalty
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
    "Novelty",
    "NuHinge",
    "NuInsensitive",
    "PSDCone",
    "Pinball",
    "SimplexHinge",
    "Squared",
    "Trace",
    "rsse",
]
