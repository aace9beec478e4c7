"""One HTML file that tells what was learned. It needs no network and runs no script."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from html import escape
from pathlib import Path

import numpy as np

from ovk._version import __version__
from ovk.app.report.page import figure, grid, number, pair, paragraphs, score_table, section, share, table, write_page
from ovk.app.report.sections import class_sections, drift_section, error_section, recent_sections, relevance_section
from ovk.app.sessions import LearnedTable, Summary, bad_rows_note, result_summary
from ovk.app.tables import UNUSED
from ovk.evaluation import ProgressiveResult
from ovk.plotting import SupportDisplay, pyplot

#: Most columns of a table beside the text.
MAX_COLUMNS_BESIDE = 4

#: Most columns in the summary of the data.
MAX_COLUMNS_LISTED = 40


def report(
    what: ProgressiveResult | LearnedTable | Summary,
    path: str | Path,
    *,
    title: str = "What was learned",
    notes: Sequence[str] = (),
) -> Path:
    """Write a report of a progressive evaluation, or of a learned table: one HTML file that needs no network.

    Parameters
    ----------
    what : what `progressive` returned; what was learned from a file, a `Session` or a `TableModel`; or a `Summary`
    path : the file to write
    title : its heading
    notes : sentences to put first

    Returns
    -------
    the path

    Examples
    --------
    >>> import os, tempfile
    >>> import numpy as np
    >>> from ovk import OLOK, progressive
    >>> from ovk.app.report import report
    >>> X = np.linspace(0, 9, 300)[:, None]
    >>> result = progressive(OLOK(), X, np.hstack([np.sin(X), np.cos(X)]), keep="all")
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     page = report(result, os.path.join(folder, "report.html")).read_text(encoding="utf-8")
    >>> page.startswith("<!doctype html>"), "://" in page
    (True, False)
    """
    summary = _summary(what)
    pyplot()
    return write_page(path, title, [part for part in _sections(summary, notes) if part])


def _summary(what: object) -> Summary:
    if isinstance(what, Summary):
        return what
    if isinstance(what, LearnedTable):
        return what.summary()
    if not isinstance(what, ProgressiveResult):
        raise TypeError(
            f"there is no page of {type(what).__name__}. What `progressive` returns has one, report(progressive(model, "
            "X, Y), path), and so does a file that was learned as a whole: report(ovk.fit_file(file, targets), path), "
            "or `ovk fit --report`. Pictures of an estimator are in ovk.plotting, and `ovk plot --out model.png`"
        )
    if len(what.rows) == 0:
        raise ValueError("the result holds no errors, since its stream had no rows: there is nothing to report")
    return result_summary(what)


def _sections(summary: Summary, notes: Sequence[str]) -> list[str]:
    result, recent = summary.result, summary.recent
    relevance = summary.relevance()
    matters = relevance_section(relevance) if relevance else ""
    first, *others = "", ""
    if recent is not None:
        first, *others = recent_sections(recent, summary.targets, ordered=summary.ordered, intervals=summary.intervals)
    sections = [section("summary", "In short", _in_short(summary, notes)), first]
    if not summary.task.numeric:
        sections += [*class_sections(summary), matters, drift_section(result)]
    else:
        sections += [error_section(result), drift_section(result)]
        sections += [matters, *others] if result is not None else [*others, matters]
    if result is not None and result.support_rows is not None:
        growth = grid([figure(SupportDisplay.from_result(result), "Growth")])
        sections.append(section("growth", "Size of the model", growth))
    if summary.columns:
        sections.append(section("data", "The data", _data(summary), half=True))
    return [*sections, section("settings", "Settings and versions", _settings(summary), half=True)]


def _in_short(summary: Summary, notes: Sequence[str]) -> str:
    unused = (pair for pair in summary.readings.items() if pair[1].startswith(UNUSED))
    facts = [
        *notes,
        *map(_sentence, summary.sentences),
        *([bad_rows_note(summary.n_bad, summary.bad_rows)] if summary.n_bad else []),
        *(f"Column {name!r} is not used: {reading.removeprefix(UNUSED)}." for name, reading in unused),
        *summary.warnings,
    ]
    text = paragraphs(summary.conclusion, facts)
    # The table of the classes has a section of its own.
    tables = summary.tables if summary.task.numeric else summary.tables[:1]
    scores = "".join(map(score_table, tables)) + (f"<p>{escape(summary.note)}</p>" if summary.note else "")
    beside = max(len(one.columns) for one in tables) <= MAX_COLUMNS_BESIDE
    return pair(text, scores) if beside else text + scores


def _sentence(words: str) -> str:
    return f"{words[0].upper()}{words[1:].removesuffix('.')}."


def _data(summary: Summary) -> str:
    # Most columns are inputs: only the others say what they are, so that a phone has room for the numbers.
    rows = [
        [escape(name if role == "input" else f"{name} ({role})"), share(seen, 1), number(mean), number(spread)]
        for name, role, seen, mean, spread in summary.columns[:MAX_COLUMNS_LISTED]
    ]
    rest = len(summary.columns) - MAX_COLUMNS_LISTED
    more = f"<p>{rest:,} more columns.</p>" if rest > 0 else ""
    return table("Columns", ["column", "known", "mean", "standard deviation"], rows) + more


def _settings(summary: Summary) -> str:
    """What was chosen, and the versions of what ran."""
    import scipy
    import sklearn

    versions = {
        "ovk": __version__,
        "Python": platform.python_version(),
        "NumPy": np.__version__,
        "SciPy": scipy.__version__,
        "scikit-learn": sklearn.__version__,
        "system": platform.platform(terse=True),
    }
    both = {**{name: _setting(value) for name, value in summary.settings.items()}, **versions}
    return table("", ["", ""], [[escape(name), escape(value)] for name, value in both.items()], words=2)


def _setting(value: object) -> str:
    if isinstance(value, (list, tuple)):
        return ", ".join(map(str, value)) or "none"
    return "default" if value is None else str(value)
