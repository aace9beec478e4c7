"""Tables and streams learned from files, also across interruptions: sessions, checkpoints, predictions, summaries."""

from ovk.app.sessions.forecasts import Forecast
from ovk.app.sessions.merging import merge_sessions
from ovk.app.sessions.predictions import FilePredictions, PredictionColumns, SessionMismatchError, csv_line
from ovk.app.sessions.session import (
    Interrupted,
    LearnedTable,
    Session,
    SessionProgress,
    StopSignals,
    learn,
    load_session,
)
from ovk.app.sessions.settings import MODELS, Settings, declared, make_model, option_of, setting
from ovk.app.sessions.summary import Summary, bad_rows_note, relevance, result_summary
from ovk.app.sessions.table_model import GroupErrors, TableModel, fit_file, fit_files, fit_table

__all__ = [
    "Interrupted",
    "Session",
    "SessionMismatchError",
    "Settings",
    "StopSignals",
    "TableModel",
    "fit_file",
    "learn",
    "merge_sessions",
]
