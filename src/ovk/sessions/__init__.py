"""Tables learned to the end, whatever happens in between: sessions, checkpoints, predictions in parts."""

from ovk.sessions.batch import Fitted, fit_table
from ovk.sessions.learn import Progress, learn
from ovk.sessions.models import MODELS, make_model
from ovk.sessions.parts import Parts
from ovk.sessions.predictions import Predictions
from ovk.sessions.session import Session
from ovk.sessions.settings import Settings

__all__ = [
    "MODELS",
    "Fitted",
    "Parts",
    "Predictions",
    "Progress",
    "Session",
    "Settings",
    "fit_table",
    "learn",
    "make_model",
]
