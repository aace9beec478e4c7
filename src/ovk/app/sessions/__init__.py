"""Tables and streams learned from files, also across interruptions: sessions, checkpoints, predictions in parts."""

from ovk.app.sessions.batch import Fitted, FittedClasses, fit_classes, fit_table
from ovk.app.sessions.file_predictions import GroupErrors
from ovk.app.sessions.files import fit_file, fit_files
from ovk.app.sessions.forecasts import Forecast
from ovk.app.sessions.learning import learn
from ovk.app.sessions.merging import merge_sessions
from ovk.app.sessions.partitions import learn_partitions
from ovk.app.sessions.predictions import ClassPredictions, OtherSession, Parts, Predictions
from ovk.app.sessions.runs import Interrupted, SessionProgress, StopSignals
from ovk.app.sessions.session import ClassSession, Session
from ovk.app.sessions.settings import MODELS, Settings, make_model

__all__ = [
    "MODELS",
    "ClassPredictions",
    "ClassSession",
    "Fitted",
    "FittedClasses",
    "Forecast",
    "GroupErrors",
    "Interrupted",
    "OtherSession",
    "Parts",
    "Predictions",
    "Session",
    "SessionProgress",
    "Settings",
    "StopSignals",
    "fit_classes",
    "fit_file",
    "fit_files",
    "fit_table",
    "learn",
    "learn_partitions",
    "make_model",
    "merge_sessions",
]
