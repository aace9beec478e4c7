"""Nonlinear vector autoregression and network inference."""

from ovk.batch.okvar.model import OKVAR
from ovk.batch.okvar.networks import Network, rank_average
from ovk.batch.okvar.selection import best_okvar, consensus, leave_one_series_out, penalty_path, stability_selection

__all__ = [
    "OKVAR",
    "Network",
    "best_okvar",
    "consensus",
    "leave_one_series_out",
    "penalty_path",
    "rank_average",
    "stability_selection",
]
