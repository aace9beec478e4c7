"""Tables and streams learned from files, also across interruptions: sessions, checkpoints, predictions, summaries."""

from ovk.app.sessions.forecasts import Forecast as Forecast
from ovk.app.sessions.group_errors import GroupErrors as GroupErrors
from ovk.app.sessions.merging import merge_sessions
from ovk.app.sessions.predictions import FilePredictions as FilePredictions
from ovk.app.sessions.predictions import OtherSession
from ovk.app.sessions.predictions import PredictionColumns as PredictionColumns
from ovk.app.sessions.session import Interrupted, Session, StopSignals, learn
from ovk.app.sessions.session import LearnedTable as LearnedTable
from ovk.app.sessions.session import SessionProgress as SessionProgress
from ovk.app.sessions.session import load_session as load_session
from ovk.app.sessions.settings import MODELS as MODELS
from ovk.app.sessions.settings import Settings
from ovk.app.sessions.settings import declared as declared
from ovk.app.sessions.settings import make_model as make_model
from ovk.app.sessions.settings import option_of as option_of
from ovk.app.sessions.settings import setting as setting
from ovk.app.sessions.summary import Summary as Summary
from ovk.app.sessions.summary import bad_rows_note as bad_rows_note
from ovk.app.sessions.summary import relevance as relevance
from ovk.app.sessions.summary import result_summary as result_summary
from ovk.app.sessions.table_model import TableModel, fit_file
from ovk.app.sessions.table_model import fit_files as fit_files
from ovk.app.sessions.table_model import fit_table as fit_table

__all__ = [
    "Interrupted",
    "OtherSession",
    "Session",
    "Settings",
    "StopSignals",
    "TableModel",
    "fit_file",
    "learn",
    "merge_sessions",
]
