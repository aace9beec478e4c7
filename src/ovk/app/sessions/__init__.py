"""Tables and streams learned from files, also across interruptions: sessions, checkpoints, predictions in parts."""

from ovk.app.sessions.batch import Fitted, FittedClasses, fit_classes, fit_table
from ovk.app.sessions.batch import in_time as in_time
from ovk.app.sessions.batch import rows_learned as rows_learned
from ovk.app.sessions.batch import rows_tested as rows_tested
from ovk.app.sessions.batch import valid_for as valid_for
from ovk.app.sessions.columns import PredictionColumns as PredictionColumns
from ovk.app.sessions.file_predictions import MAX_BAD as MAX_BAD
from ovk.app.sessions.file_predictions import FilePredictions as FilePredictions
from ovk.app.sessions.file_predictions import GroupErrors
from ovk.app.sessions.file_predictions import TableModel as TableModel
from ovk.app.sessions.files import OF_STREAMS as OF_STREAMS
from ovk.app.sessions.files import fit_file, fit_files
from ovk.app.sessions.forecasts import Forecast
from ovk.app.sessions.input_relevance import kernel_in_words as kernel_in_words
from ovk.app.sessions.input_relevance import relevance as relevance
from ovk.app.sessions.learning import learn
from ovk.app.sessions.learning import load_session as load_session
from ovk.app.sessions.merging import merge_sessions
from ovk.app.sessions.predictions import ClassPredictions, OtherSession, Parts, Predictions
from ovk.app.sessions.remarks import ColumnRow as ColumnRow
from ovk.app.sessions.remarks import bad_rows_note as bad_rows_note
from ovk.app.sessions.remarks import doubts as doubts
from ovk.app.sessions.remarks import fault_lines as fault_lines
from ovk.app.sessions.remarks import hints as hints
from ovk.app.sessions.runs import Interrupted, SessionProgress, StopSignals
from ovk.app.sessions.session import ClassSession, Session
from ovk.app.sessions.settings import KERNELS as KERNELS
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
    "make_model",
    "merge_sessions",
]
