"""Nonlinear vector autoregression and network inference."""

from ovk.batch.okvar.model import OKVAR
from ovk.batch.okvar.networks import Network, rank_average
from ovk.batch.okvar.selection import best_okvar, consensus, stability_selection

__all__ = [
    "OKVAR",
    "Network",
    "best_okvar",
    "consensus",
    "rank_average",
    "stability_selection",
]
