"""Tables and streams learned from files, also across interruptions: sessions, checkpoints, predictions in parts."""

from ovk.sessions.batch import Fitted, fit_table
from ovk.sessions.class_predictions import ClassPredictions
from ovk.sessions.class_table import FittedClasses, fit_classes
from ovk.sessions.classes import ClassSession
from ovk.sessions.files import fit_files
from ovk.sessions.fit_file import fit_file
from ovk.sessions.forecasts import Forecast
from ovk.sessions.groups import GroupErrors
from ovk.sessions.interrupts import Interrupted, StopSignals
from ovk.sessions.learn import learn
from ovk.sessions.merging import merge_sessions
from ovk.sessions.models import MODELS, make_model
from ovk.sessions.partitions import learn_partitions
from ovk.sessions.predictions import OtherSession, Parts, Predictions
from ovk.sessions.runs import SessionProgress
from ovk.sessions.session import Session
from ovk.sessions.settings import Settings

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
