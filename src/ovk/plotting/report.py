"""One HTML file that tells what was learned. It needs no network and runs no script."""

from __future__ import annotations

import platform
from base64 import b64encode
from collections.abc import Mapping, Sequence
from html import escape
from io import BytesIO
from pathlib import Path

import numpy as np

from ovk._validation import Array
from ovk._version import __version__
from ovk.evaluation import ProgressiveResult, Recent
from ovk.persistence.atomic import replacing
from ovk.plotting.calibration import CalibrationDisplay
from ovk.plotting.display import Display, pyplot
from ovk.plotting.output_structure import OutputStructureDisplay
from ovk.plotting.progressive_error import ProgressiveErrorDisplay
from ovk.plotting.recent import RecentDisplay
from ovk.plotting.residuals import ResidualDisplay
from ovk.plotting.style import STYLE
from ovk.plotting.support import SupportDisplay
from ovk.plotting.task_graph import TaskGraphDisplay

#: Most outputs with figures of their own; the tables have all of them.
FIGURES = 12

#: Most inputs in the summary of the data.
INPUTS = 40

#: The browser itself refuses anything that is not in the file.
POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"


def report(
    result: ProgressiveResult,
    path: str | Path,
    *,
    title: str = "What was learned",
    summary: Sequence[tuple[str, str, float, float, float]] = (),
    recent: Recent | None = None,
    settings: Mapping[str, object] | None = None,
    notes: Sequence[str] = (),
    seconds: float | None = None,
) -> Path:
    """Write a report of a progressive evaluation: one HTML file that needs no network.

    Parameters
    ----------
    result : what `progressive` returned
    path : the file to write
    title : its heading
    summary : for each column its name, its role, part of its values that were seen, their mean and deviation
    recent : the last predictions and outcomes, for intervals, residuals and correlations; by default those that the
        result kept (``keep="all"``)
    settings : names and values of what was chosen
    notes : sentences to put first
    seconds : how long it all took

    Returns
    -------
    the path

    Examples
    --------
    >>> import os, tempfile
    >>> import numpy as np
    >>> from ovk import OLOK, progressive
    >>> from ovk.plotting import report
    >>> X = np.linspace(0, 9, 300)[:, None]
    >>> result = progressive(OLOK(), X, np.hstack([np.sin(X), np.cos(X)]), keep="all")
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     page = report(result, os.path.join(folder, "report.html")).read_text(encoding="utf-8")
    >>> page.startswith("<!doctype html>"), "://" in page
    (True, False)
    """
    if len(result.rows) == 0:
        raise ValueError("the result holds no errors, since its stream had no rows: there is nothing to report")
    pyplot()
    recent = _kept(result) if recent is None else recent
    parts = [
        _section("summary", "In short", _short(result, notes, seconds)),
        _section("errors", "Errors as the stream went", _errors(result)),
    ]
    if recent is not None and len(recent.Y):
        parts += [
            _section("recent", "The last rows", _last_rows(recent, result.outputs)),
            _section("calibration", "Intervals and residuals", _intervals(recent, result.outputs)),
            _section("structure", "Which outputs go together", _structure(recent, result.outputs)),
        ]
    if result.support_rows is not None:
        parts.append(_section("growth", "Size of the model", _figure(SupportDisplay.from_result(result), "Growth")))
    if summary:
        parts.append(_section("data", "The data", _data(summary)))
    parts.append(_section("settings", "Settings and versions", _settings(settings or {})))
    page = _PAGE.format(title=escape(title), style=STYLE, policy=POLICY, body="\n".join(parts))
    path = Path(path)
    with replacing(str(path)) as file:
        file.write(page.encode("utf-8"))
    return path


def _kept(result: ProgressiveResult) -> Recent | None:
    """The last rows of a result that kept them."""
    if result.predictions is None or result.targets is None:
        return None
    d = len(result.outputs)
    F, Y = result.predictions.reshape(-1, d), result.targets.reshape(-1, d)
    recent = Recent.empty(d)
    for start in range(result.warm_up, len(F), 200):
        recent.take(F[start : start + 200], Y[start : start + 200])
    return recent


def _short(result: ProgressiveResult, notes: Sequence[str], seconds: float | None) -> str:
    learners = (result.model, *result.baselines)
    tested = result.n_rows - result.warm_up
    facts = [
        f"{tested:,} rows were predicted before they were learned, after a warm-up of {result.warm_up:,}.",
        *notes,
    ]
    if seconds is not None:
        facts.append(f"It took {seconds:,.1f} seconds.")
    text = "".join(f"<p>{escape(fact)}</p>" for fact in facts)
    names = [learner.name for learner in learners]
    rows = []
    for q, output in enumerate(result.outputs):
        errors = [float(learner.mse[q]) for learner in learners]
        known = [error for error in errors if np.isfinite(error)]
        best = min(known) if known else None
        cells = [f"<b>{_number(error)}</b>" if error == best else _number(error) for error in errors]
        rows.append([escape(output), *cells])
    return text + _table("Mean squared errors, the least in bold", ["output", *map(escape, names)], rows)


def _errors(result: ProgressiveResult) -> str:
    outputs = list(result.outputs[:FIGURES])
    more = f"<p>The first {FIGURES} of {len(result.outputs)} outputs.</p>" if len(result.outputs) > FIGURES else ""
    figures = []
    for output in outputs:
        display = ProgressiveErrorDisplay.from_result(result, outputs=[output], plot=False)
        _, ax = pyplot().subplots(figsize=(4.6, 3.6), layout="constrained")
        display.plot(ax)
        # Below, where there is no curve to hide.
        ax.legend(fontsize=8, ncols=2, loc="upper center", bbox_to_anchor=(0.5, -0.2), frameon=False, handlelength=3.0)
        figures.append(_figure(display, f"Mean squared error of {output} so far, beside baselines"))
    return more + _grid(figures)


def _last_rows(recent: Recent, outputs: Sequence[str]) -> str:
    figures = [
        _figure(RecentDisplay.from_recent(recent, q, name=name), f"The last predictions and outcomes of {name}")
        for q, name in enumerate(outputs[:FIGURES])
    ]
    return _grid(figures)


def _intervals(recent: Recent, outputs: Sequence[str]) -> str:
    if not recent.tested.any():
        return "<p>Too few rows to test intervals.</p>"
    display = CalibrationDisplay.from_recent(recent, names=list(outputs))
    text = (
        "<p>Around every prediction, an interval was drawn from the errors before it; this is how often the outcome "
        "fell inside. Below the line, intervals were too narrow.</p>"
    )
    residuals = ResidualDisplay.from_recent(recent, names=list(outputs))
    return text + _grid(
        [
            _figure(display, "Coverage of intervals against their level"),
            _figure(residuals, "Residuals of each output"),
        ]
    )


def _structure(recent: Recent, outputs: Sequence[str]) -> str:
    outcomes, errors = _correlation(recent.Y), _correlation(recent.Y - recent.F)
    names = list(outputs)
    if len(names) == 1:
        return "<p>There is one output.</p>"
    heat = OutputStructureDisplay(outcomes, names).plot()
    heat.ax_.set_title("Correlation of the outcomes", fontsize=10)
    left = OutputStructureDisplay(errors, names).plot()
    left.ax_.set_title("Correlation of the errors", fontsize=10)
    text = (
        "<p>What is correlated in the outcomes can help each other's predictions; what is still correlated in the "
        "errors was not used.</p>"
    )
    return text + _grid(
        [
            _figure(heat, "Correlation matrix of the outcomes"),
            _figure(left, "Correlation matrix of the errors"),
            _figure(TaskGraphDisplay(outcomes, names).plot(), "Graph of the outputs"),
        ]
    )


def _correlation(A: Array) -> Array:
    """(d, d) correlations over the rows where both are known; 0 where there are too few."""
    d = A.shape[1]
    result = np.eye(d)
    for i in range(d):
        for j in range(i):
            known = np.isfinite(A[:, i]) & np.isfinite(A[:, j])
            x, y = A[known, i], A[known, j]
            if len(x) > 2 and x.std() > 0 and y.std() > 0:
                result[i, j] = result[j, i] = np.corrcoef(x, y)[0, 1]
    return result


def _data(summary: Sequence[tuple[str, str, float, float, float]]) -> str:
    rows = [
        [escape(name), escape(role), f"{seen:.1%}", _number(mean), _number(spread)]
        for name, role, seen, mean, spread in summary[:INPUTS]
    ]
    more = f"<p>{len(summary) - INPUTS:,} more columns.</p>" if len(summary) > INPUTS else ""
    return _table("Columns", ["column", "role", "seen", "mean", "deviation"], rows) + more


def _settings(settings: Mapping[str, object]) -> str:
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
    both = {**{name: _setting(value) for name, value in settings.items()}, **versions}
    return _table("", ["", ""], [[escape(name), escape(value)] for name, value in both.items()], words=2)


def _setting(value: object) -> str:
    if isinstance(value, (list, tuple)):
        return ", ".join(map(str, value)) or "none"
    return "default" if value is None else str(value)


# HTML -----------------------------------------------------------------------------------------------------------------


def _section(name: str, heading: str, body: str) -> str:
    return f'<section id="{name}"><h2>{escape(heading)}</h2>{body}</section>'


def _grid(figures: Sequence[str]) -> str:
    return f'<div class="grid">{"".join(figures)}</div>'


def _figure(display: Display, description: str) -> str:
    """A plot as an image within the page: its names cannot collide with those of other plots."""
    buffer = BytesIO()
    # Without a date, the same numbers make the same file.
    display.figure_.savefig(buffer, format="svg", metadata={"Date": None})
    pyplot().close(display.figure_)
    source = b64encode(buffer.getvalue()).decode("ascii")
    return f'<figure><img alt="{escape(description)}" src="data:image/svg+xml;base64,{source}"></figure>'


def _table(caption: str, head: Sequence[str], rows: Sequence[Sequence[str]], words: int = 1) -> str:
    """A table of cells that are HTML already; the first `words` columns hold words."""

    def cells(row: Sequence[str], tag: str) -> str:
        kinds = ("" if k < words else ' class="number"' for k in range(len(row)))
        return "".join(f"<{tag}{kind}>{cell}</{tag}>" for kind, cell in zip(kinds, row, strict=True))

    top = f"<caption>{escape(caption)}</caption>" if caption else ""
    header = f"<thead><tr>{cells(head, 'th')}</tr></thead>" if any(head) else ""
    body = "".join(f"<tr>{cells(row, 'td')}</tr>" for row in rows)
    return f'<div class="wide"><table>{top}{header}<tbody>{body}</tbody></table></div>'


def _number(value: float) -> str:
    return "–" if not np.isfinite(value) else f"{value:.4g}"


_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<link rel="icon" href="data:,">
<title>{title}</title>
<style>{style}</style>
</head>
<body>
<header><h1>{title}</h1></header>
<main>
{body}
</main>
<footer>Made by ovk. This page is one file: it loads nothing and runs no script.</footer>
</body>
</html>
"""
