"""The `Summary` of a model: the command line prints it as text or JSON, `ovk.report` writes it as a page."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from ovk.app.tables import UNUSED, Preparation
from ovk.base import Array, Category, Instant, as_instants
from ovk.evaluation import DEFAULT_LEVEL, REGRESSION, ProgressiveResult, RecentErrors, RunningMoments, ScoreTable, Task

if TYPE_CHECKING:
    from ovk.app.sessions.predictions import RowPredictor

#: Maximum number of column names in one line, and of classes in a table of text.
MAX_COLUMNS_LISTED, MAX_CLASSES_SHOWN = 50, 12

#: Name, role, share of values observed, mean, standard deviation; nan for columns of dates.
ColumnRow = tuple[str, str, float, float, float]

#: Number and fault of a row with unreadable cells.
BadRow = tuple[int, str]


@dataclass
class Summary:
    """Scores, column types and warnings of a model, to be printed or written as a report.

    conclusion : one sentence about the quality of the model
    sentences : additional facts, in lower case and without a full stop
    tables : scores of the model and its baselines; `note` explains their headings
    facts : all values by name, for JSON
    learners, names : the scores of the model and its baselines, and the outputs or classes
    readings : the type of each column by name; `targets` are the outputs
    result : scores along a stream; None for a table
    recent : the last predictions and outcomes; None for classes
    relevance : computes the relevance of each column
    intervals : how the intervals of a table were computed and tested; "" for streams
    ordered : whether rows are ordered in time
    """

    conclusion: str
    sentences: list[str] = field(default_factory=list)
    tables: list[ScoreTable] = field(default_factory=list)
    facts: dict[str, Any] = field(default_factory=dict)
    task: Task[Any] = REGRESSION
    learners: Sequence[Any] = ()
    names: Sequence[str] = ()
    readings: Mapping[str, str] = field(default_factory=dict)
    targets: Sequence[str] = ()
    warnings: list[str] = field(default_factory=list)
    n_rows: int = 0
    n_bad: int = 0
    bad_rows: Sequence[BadRow] = ()
    columns: Sequence[ColumnRow] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)
    result: ProgressiveResult | None = None
    recent: RecentErrors | None = None
    relevance: Callable[[], Mapping[str, float]] = dict
    intervals: str = ""
    ordered: bool = True
    note: str = ""

    def __str__(self) -> str:
        return "\n".join([*self.bad_row_lines(), *self.lines()])

    def bad_row_lines(self) -> list[str]:
        if not self.n_bad:
            return []
        share = f"{self.n_bad:,} of {self.n_rows:,} rows ({self.n_bad / max(self.n_rows, 1):.1%})"
        head = f"{share} had unreadable cells (row 1 is the first row of data):"
        return [head, *(f"  {line}" for line in bad_row_kinds(self.n_bad, self.bad_rows))]

    def lines(self) -> list[str]:
        """The summary as text, without `bad_row_lines`."""
        most = None if self.task.numeric else MAX_CLASSES_SHOWN
        observed = [f"{name} {seen:.0%}" for name, role, seen, *_ in self.columns if role == "output" and seen < 0.995]
        return [
            *self.sentences,
            *self._readings(),
            *([f"values observed: {', '.join(observed)}"] if observed else []),
            *(line for table in self.tables for line in (*table.lines(most), "")),
            self.conclusion,
        ]

    def _readings(self) -> Iterable[str]:
        """Column types, inputs before outputs; columns of the same type share a line."""
        for outputs in (False, True):
            alike: dict[str, list[str]] = {}
            for name, reading in self.readings.items():
                if (name in self.targets) == outputs:
                    alike.setdefault(reading, []).append(name)
            lead = "output" if outputs else "input"
            for reading, names in alike.items():
                what = "" if reading.startswith(UNUSED) else f"{lead}{'s' if len(names) > 1 else ''} "
                rest = len(names) - MAX_COLUMNS_LISTED
                more = f" and {rest} more (all with --json)" if rest > 0 else ""
                yield f"{what}{', '.join(names[:MAX_COLUMNS_LISTED])}{more}: {reading}"


def score_summary(task: Task[Any], learners: Sequence[Any], names: Sequence[str], title: str = "") -> Summary:
    """The scores of a model and its baselines; `title` is that of the table of classification scores."""
    by = [one.name for one in learners]
    heading = by[0] if "(" in by[0] or by[0] == "model" else f"model ({by[0]})"
    tables = [
        table._replace(columns=(heading, *table.columns[1:])) if table.largest else table
        for table in task.tables(learners, names)
    ]
    facts: dict[str, Any] = {}
    if task.numeric:
        for key in ("mse", "mae"):
            facts[key] = {one.name: getattr(one, key) for one in learners}
    else:
        scores, classes = tables
        tables = [
            scores._replace(title=title or "each row predicted before its label is seen"),
            classes._replace(title="classes: rows tested and recall"),
        ]
        for name, values in zip(scores.rows, scores.values.tolist(), strict=True):
            facts[name.lower().replace(" ", "_")] = dict(zip(by, values, strict=True))
        facts |= {"classes": list(names), "confusion": learners[0].confusion}
        facts["tested"] = dict(zip(names, classes.values[:, 0].tolist(), strict=True))
        facts["recall"] = dict(zip(names, classes.values[:, 2].tolist(), strict=True))
    conclusion = task.conclusion(learners, names)
    return Summary(conclusion, tables=tables, facts=facts, task=task, learners=learners, names=names)


def result_summary(result: ProgressiveResult, recent: RecentErrors | None = None, deviations: Any = None) -> Summary:
    """The summary of a progressive evaluation.

    `recent` are the last predictions and outcomes, by default those kept by the result; `deviations` (d,) are the
    standard deviations of the outputs, for R2.
    """
    found = score_summary(result.task, result.learners, [str(name) for name in result.names])
    alarms = [] if result.drift is None else list(result.drift.alarms)
    found.sentences.append(
        f"{result.n_rows - result.untested:,} rows were predicted before they were learned, after a warm-up of "
        f"{result.untested:,} rows"
    )
    if alarms:
        last = ", ".join(f"{row:,}" for row in alarms[-5:])
        found.sentences.append(f"drift alarms (rising errors): {len(alarms):,}, the latest at row {last}")
    found.result, found.targets = result, list(result.outputs)
    found.facts |= {"warm_up": result.untested, "model": result.model.name, "alarms": alarms}
    if result.task.numeric:
        recent = _kept_rows(result) if recent is None else recent
        found.recent = recent if recent is not None and len(recent.Y) else None
        columns = {"RMSE": np.sqrt(result.mse)}
        if deviations is not None:
            with np.errstate(divide="ignore", invalid="ignore"):
                r2 = 1.0 - result.mse / np.where(deviations > 0, deviations, np.nan) ** 2
            found.facts["r2"] = columns["R2"] = np.where(np.isfinite(r2), r2, np.nan)
        if found.recent is not None:
            shown = found.recent.shown
            columns |= {f"in {shown.percent} interval": shown.coverage, "median width": shown.width}
            found.facts |= interval_facts(found.recent)
        values, title = np.column_stack(list(columns.values())), "errors and intervals of the model"
        found.tables.append(ScoreTable(title, tuple(found.names), tuple(columns), values))
    else:
        if result.n_missing:
            found.sentences.append(f"{result.n_missing:,} rows without a label were predicted but not learned")
        found.facts["rows_without_label"] = result.n_missing
    return found


def _kept_rows(result: ProgressiveResult) -> RecentErrors | None:
    if result.predictions is None or result.targets is None:
        return None
    d, first = len(result.outputs), result.untested
    F, Y = result.predictions.reshape(-1, d), result.targets.reshape(-1, d)
    recent = RecentErrors.empty(d, level=DEFAULT_LEVEL if result.intervals is None else result.intervals.target)
    instants = as_instants(result.times)
    recent.update(F[first:], Y[first:], None if instants is None else instants[first:])
    return recent


def interval_facts(recent: RecentErrors) -> dict[str, Any]:
    shown = recent.shown
    return {"interval_level": shown.level, "interval_coverage": shown.coverage, "interval_width": shown.width}


def column_summary(
    preparation: Preparation, outputs: Sequence[str], moments: RunningMoments, n_rows: int
) -> list[ColumnRow]:
    """Outputs first, then inputs; a column of dates is one row. `moments` are those of inputs, then outputs."""
    seen = (moments.count / max(n_rows, 1)).tolist()
    sd = np.where(moments.constant, 0.0, moments.sd)
    numbers = list(zip(seen, moments.mean.tolist(), sd.tolist(), strict=True))
    names = preparation.feature_names_
    rows = [(name, "output", *numbers[len(names) + q]) for q, name in enumerate(outputs)]
    start = 0
    for column in preparation.columns_:
        end = start + len(column.names())
        if isinstance(column, Instant):
            rows.append((" and ".join(column.sources()), "date", np.nan, np.nan, np.nan))
        else:
            rows += [(names[j], "input", *numbers[j]) for j in range(start, end)]
        start = end
    return rows + [(names[j], "input", *numbers[j]) for j in range(start, len(names))]


def column_warnings(preparation: Preparation, columns: Iterable[ColumnRow] = (), *, table: bool) -> list[str]:
    """Sentences about columns that may have the wrong type, are constant, or look like identifiers.

    `table`: the rows were learned as a whole table with numeric outputs, for which groups can be held out.
    """
    sources = [source for column in preparation.columns_ for source in column.sources()]
    found = list(preparation.warnings_.values())
    for name, role, _, mean, sd in columns:
        if sd == 0 and (role == "output" or name in sources):
            why = "there is nothing to learn" if role == "output" else "it carries no information"
            found.append(f"Column {name!r} is {mean:g} in every row: {why}.")
    for name, count in preparation.id_like_.items():
        (column,) = (column for column in preparation.columns_ if name in column.sources())
        what = "categories" if isinstance(column, Category) else "a number"
        ignore = f"--ignore {name} (ignore=[{name!r}])"
        advice = f"If it is an identifier, pass {ignore}."
        if table:
            advice = (
                f"If it identifies units and you will predict unseen ones, pass --groups {name} (groups={name!r}): "
                f"errors and intervals then apply to unseen units. To skip the column, pass {ignore}."
            )
        found.append(f"Column {name!r} has {count:,} values, each in several rows, and is used as {what}. {advice}")
    for name, values in () if table else preparation.class_like_.items():
        some = ", ".join(values[:5]) + (", ..." if len(values) > 5 else "")
        found.append(f"Column {name!r} contains only {some}. If these are classes, pass --classify.")
    return found


#: Maximum number of kinds of faults listed, and of rows listed for each.
MAX_FAULTS_LISTED, MAX_FAULT_ROWS_LISTED = 5, 3


def bad_row_kinds(bad: int, faults: Sequence[BadRow]) -> list[str]:
    """A line for each kind of fault, the most frequent first, and one for all others."""
    rows: dict[str, list[int]] = {}
    for row, fault in faults:
        rows.setdefault(fault, []).append(row)
    lines, listed = [], 0
    for fault, where in sorted(rows.items(), key=lambda pair: -len(pair[1]))[:MAX_FAULTS_LISTED]:
        some = ", ".join(map(str, where[:MAX_FAULT_ROWS_LISTED]))
        some += ", ..." if len(where) > MAX_FAULT_ROWS_LISTED else ""
        lines.append(f"{fault}: row {some}" if len(where) == 1 else f"{fault}: {len(where)} rows ({some})")
        listed += len(where)
    if bad > listed:
        lines.append(f"{bad - listed:,} more row{'s' if bad - listed > 1 else ''}")
    return lines


def bad_rows_note(bad: int, faults: Sequence[BadRow]) -> str:
    return f"{bad:,} row{'s' if bad > 1 else ''} had unreadable cells ({'; '.join(bad_row_kinds(bad, faults))})."


#: Rows whose inputs are kept to compute relevances, and maximum number of inputs for which they are computed.
MAX_ROWS_KEPT, MAX_RELEVANCE_INPUTS = 200, 500


def relevance(predictor: RowPredictor, X: Array | None) -> dict[str, float]:
    """Permutation relevance of each column, the largest first.

    With f the model and P_j X the rows in which column j (all inputs made of it, or one lagged output) is permuted,

        r_j = root mean square over rows and outputs of  (f(P_j X) - f(X)) / deviation of the output.

    It measures what the model uses, not causation: of two redundant columns, either may have all the relevance. X
    (n, p) are the inputs of the last rows, None if they were not kept.
    """
    preparation = predictor.preparation
    names = preparation.feature_names_
    if X is None or len(X) < 2 or len(names) > MAX_RELEVANCE_INPUTS:
        return {}
    groups: dict[str, list[int]] = {}
    for column in preparation.columns_:
        start = sum(map(len, groups.values()))
        groups.setdefault(" and ".join(column.sources()), []).extend(range(start, start + len(column.names())))
    groups |= {names[j]: [j] for j in range(sum(map(len, groups.values())), len(names))}
    F = predictor.outputs(X)
    outcomes = predictor.recent.Y
    known = [column[np.isfinite(column)] for column in outcomes.T]
    spread = np.array([column.std() if len(column) > 1 and column.std() > 0 else 1.0 for column in known])
    order = np.random.default_rng(0).permutation(len(X))
    found = {}
    for name, columns in groups.items():
        Z = X.copy()
        Z[:, columns] = X[order][:, columns]
        found[name] = float(np.sqrt(np.mean(((predictor.outputs(Z) - F) / spread) ** 2)))
    return dict(sorted(found.items(), key=lambda pair: -pair[1]))


#: Correlations of outputs below this absolute value are reported as "not coupled".
MIN_CORRELATION = 0.005


def describe_kernel(kernel: Any, outputs: Sequence[str]) -> str:
    """The scalar kernels of a fitted kernel, and the strongest coupling between outputs."""
    terms = kernel.terms()
    found = [name for term in terms for name in re.findall(r"\b([A-Z]\w+)\(", repr(term.kernel))]
    names = [name for name in found if name != "Mapped"]
    kinds = list(dict.fromkeys(names))
    words = f"{kinds[0]} kernel" if len(kinds) == 1 else f"kernels ({', '.join(kinds)})"
    if len(names) > 1:
        words = f"sum of {len(names)} {words}{'s' if len(kinds) == 1 else ''}"
    if mapped := len(found) - len(names):
        metrics = "in a learned metric" if mapped == len(names) == 1 else "in learned metrics"
        words += f" {metrics}" if mapped == len(names) else f", {mapped} of them {metrics}"
    if len(outputs) == 1:
        return words
    T = np.sum([term.weight * term.operator.dense() for term in terms], axis=0)
    scale = np.sqrt(np.maximum(np.diagonal(T), np.finfo(float).tiny))
    between = np.triu(T / np.outer(scale, scale), 1)
    i, j = np.unravel_index(np.abs(between).argmax(), between.shape)
    if abs(between[i, j]) < MIN_CORRELATION:
        return f"{words}, outputs not coupled"
    return f"{words}, outputs coupled (strongest: {outputs[i]} and {outputs[j]}, {between[i, j]:.2f})"
