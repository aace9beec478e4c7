"""The report of a result or a model: one self-contained HTML file without scripts."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from html import escape
from pathlib import Path

import numpy as np

from ovk._version import __version__
from ovk.app.report.page import figure, grid, number, pair, score_table, section, share, table, write_page
from ovk.app.report.sections import class_sections, drift_section, error_section, recent_sections, relevance_section
from ovk.app.sessions import LearnedTable, Summary, bad_rows_note, result_summary
from ovk.app.tables import UNUSED
from ovk.evaluation import ProgressiveResult
from ovk.plotting import SupportDisplay, pyplot

#: Maximum number of columns of a table next to the text.
MAX_COLUMNS_NEXT_TO_TEXT = 4

#: Maximum number of columns in the summary of the data.
MAX_COLUMNS_LISTED = 40


def report(
    what: ProgressiveResult | LearnedTable | Summary,
    path: str | Path,
    *,
    title: str = "Results",
    notes: Sequence[str] = (),
) -> Path:
    """Write a report as one self-contained HTML file: scores, figures, intervals and settings.

    Parameters
    ----------
    what : ProgressiveResult, Session, TableModel or Summary
        The result of `progressive`, or a model learned from a file.
    path : str or Path
        The file to write.
    title : str, default "Results"
        Heading of the page.
    notes : sequence of str, default ()
        Sentences to put first.

    Returns
    -------
    Path
        The path of the file.

    See Also
    --------
    progressive, fit_file

    Examples
    --------
    >>> import os, tempfile
    >>> import numpy as np
    >>> from ovk import OLOK, progressive
    >>> from ovk.app.report import report
    >>> X = np.linspace(0, 9, 300)[:, None]
    >>> result = progressive(OLOK(), X, np.hstack([np.sin(X), np.cos(X)]), keep="all")
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     page = report(result, os.path.join(directory, "report.html")).read_text(encoding="utf-8")
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
            f"report() does not support {type(what).__name__}. Pass the result of fit_file() or progressive(); "
            "ovk.plotting has plots of estimators"
        )
    if len(what.rows) == 0:
        raise ValueError("the result has no errors to report: its stream had no rows")
    return result_summary(what)


def _sections(summary: Summary, notes: Sequence[str]) -> list[str]:
    result, recent = summary.result, summary.recent
    relevance = summary.relevance()
    matters = relevance_section(relevance) if relevance else ""
    first, *others = "", ""
    if recent is not None:
        first, *others = recent_sections(recent, summary.targets, ordered=summary.ordered, intervals=summary.intervals)
    sections = [section("summary", "Summary", _overview(summary, notes)), first]
    if not summary.task.numeric:
        sections += [*class_sections(summary), matters, drift_section(result)]
    else:
        sections += [error_section(result), drift_section(result)]
        sections += [matters, *others] if result is not None else [*others, matters]
    if result is not None and result.support_rows is not None:
        growth = grid([figure(SupportDisplay.from_result(result), "Growth")])
        sections.append(section("growth", "Size of the model", growth))
    if summary.columns:
        sections.append(section("data", "Data", _data(summary), half=True))
    return [*sections, section("settings", "Settings and versions", _settings(summary), half=True)]


def _overview(summary: Summary, notes: Sequence[str]) -> str:
    unused = (pair for pair in summary.readings.items() if pair[1].startswith(UNUSED))
    facts = [
        *notes,
        *map(_sentence, summary.sentences),
        *([bad_rows_note(summary.n_bad, summary.bad_rows)] if summary.n_bad else []),
        *(f"Column {name!r} is not used: {reading.removeprefix(UNUSED)}." for name, reading in unused),
        *summary.warnings,
    ]
    text = f'<p class="lead">{escape(summary.conclusion)}</p>' + "".join(f"<p>{escape(fact)}</p>" for fact in facts)
    # The table of the classes has its own section.
    tables = summary.tables if summary.task.numeric else summary.tables[:1]
    scores = "".join(map(score_table, tables)) + (f"<p>{escape(summary.note)}</p>" if summary.note else "")
    narrow = max(len(one.columns) for one in tables) <= MAX_COLUMNS_NEXT_TO_TEXT
    return pair(text, scores) if narrow else text + scores


def _sentence(words: str) -> str:
    return f"{words[0].upper()}{words[1:].removesuffix('.')}."


def _data(summary: Summary) -> str:
    # Only columns that are not inputs show their role, which leaves more room for the numbers.
    rows = [
        [escape(name if role == "input" else f"{name} ({role})"), share(seen, 1), number(mean), number(spread)]
        for name, role, seen, mean, spread in summary.columns[:MAX_COLUMNS_LISTED]
    ]
    rest = len(summary.columns) - MAX_COLUMNS_LISTED
    more = f"<p>{rest:,} more columns.</p>" if rest > 0 else ""
    return table("", ["column", "observed", "mean", "standard deviation"], rows) + more


def _settings(summary: Summary) -> str:
    """The settings, and the versions of the software."""
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
