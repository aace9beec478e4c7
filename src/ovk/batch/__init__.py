"""Learning from a batch."""

from ovk.batch.okvar import (
    OKVAR,
    Network,
    best_okvar,
    consensus,
    leave_one_series_out,
    parent_probabilities,
    penalty_path,
    rank_average,
    stability_selection,
)
from ovk.batch.ridge import OVKRidge
from ovk.batch.ridge_cv import OVKRidgeCV

__all__ = [
    "OKVAR",
    "Network",
    "OVKRidge",
    "OVKRidgeCV",
    "best_okvar",
    "consensus",
    "leave_one_series_out",
    "parent_probabilities",
    "penalty_path",
    "rank_average",
    "stability_selection",
]
