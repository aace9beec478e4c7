"""Tables and streams learned from files, also across interruptions: sessions, checkpoints, predictions in parts."""

from ovk.sessions.batch import Fitted, FittedClasses, fit_classes, fit_table
from ovk.sessions.file_predictions import GroupErrors
from ovk.sessions.files import fit_file, fit_files
from ovk.sessions.forecasts import Forecast
from ovk.sessions.learn import learn
from ovk.sessions.merging import merge_sessions
from ovk.sessions.partitions import learn_partitions
from ovk.sessions.predictions import ClassPredictions, OtherSession, Parts, Predictions
from ovk.sessions.runs import Interrupted, SessionProgress, StopSignals
from ovk.sessions.session import ClassSession, Session
from ovk.sessions.settings import MODELS, Settings, make_model

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
