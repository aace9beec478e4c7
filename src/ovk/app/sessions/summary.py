"""What is known about a model, stated once: a `Summary` of sentences, tables and figures.

The command line prints it as text or JSON, `ovk.report` writes it as a page.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from ovk.app.tables import UNUSED, Preparation
from ovk.base import Array, Category, Instant, as_instants
from ovk.evaluation import LEVEL, REGRESSION, ProgressiveResult, RecentErrors, RunningMoments, ScoreTable, Task

if TYPE_CHECKING:
    from ovk.app.sessions.predictions import RowPredictor

#: Most names of columns in one line, and most classes in a table of text.
MAX_COLUMNS_LISTED, MAX_CLASSES_SHOWN = 50, 12

#: Name, role, share of the values that were observed, mean, standard deviation; nan for columns of dates.
ColumnRow = tuple[str, str, float, float, float]

#: Number and fault of a row with unreadable cells.
BadRow = tuple[int, str]


@dataclass
class Summary:
    """What is known about a model.

    conclusion : one sentence: how good the model is
    sentences : further facts, without capital and full stop
    tables : scores beside those of baselines; `note` says what their headings mean
    facts : everything as plain values by name, for programs
    learners, names : the scores of the model and its baselines, and the outputs or classes
    readings : how each column of the table is read, by its name; `targets` are the outputs among them
    result : scores along a stream; None for a table that was learned as a whole
    recent : the last predictions and outcomes; None for classes
    relevance : computes how much each column matters
    intervals : how the intervals of a table were made and tested; "" for streams
    ordered : whether rows follow each other in time
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
        """How many rows had unreadable cells, and which."""
        if not self.n_bad:
            return []
        head = f"{self.n_bad:,} of {self.n_rows:,} rows had unreadable cells (row 1 is the first row of data):"
        return [head, *(f"  {line}" for line in bad_row_kinds(self.n_bad, self.bad_rows))]

    def lines(self) -> list[str]:
        """The summary as text, without the rows that cannot be read."""
        most = None if self.task.numeric else MAX_CLASSES_SHOWN
        observed = [f"{name} {seen:.0%}" for name, role, seen, *_ in self.columns if role == "output" and seen < 0.995]
        return [
            *self.sentences,
            *self._readings(),
            *([f"share of the values observed: {', '.join(observed)}"] if observed else []),
            *(line for table in self.tables for line in (*table.lines(most), "")),
            self.conclusion,
        ]

    def _readings(self) -> Iterable[str]:
        """How the columns are read, inputs and outputs separately, those that are read alike in one line."""
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


# Scores along a stream.


def model_heading(name: str) -> str:
    """The heading of a model's column."""
    return name if "(" in name or name == "model" else f"model ({name})"


def score_summary(task: Task[Any], learners: Sequence[Any], names: Sequence[str], title: str = "") -> Summary:
    """The scores of a model beside its baselines; `title` is that of the table of scores of classes."""
    tables = [
        table._replace(columns=(model_heading(table.columns[0]), *table.columns[1:])) if table.largest else table
        for table in task.tables(learners, names)
    ]
    by = [one.name for one in learners]
    facts: dict[str, Any] = {}
    if task.numeric:
        for key in ("mse", "mae"):
            facts[key] = {one.name: getattr(one, key) for one in learners}
    else:
        scores, classes = tables
        tables = [
            scores._replace(title=title or "every row predicted before its label was seen"),
            classes._replace(title="classes: rows tested, and share of them that was found"),
        ]
        for name, values in zip(scores.rows, scores.values.tolist(), strict=True):
            facts[name.lower().replace(" ", "_")] = dict(zip(by, values, strict=True))
        facts |= {"classes": list(names), "confusion": learners[0].confusion}
        facts["tested"] = dict(zip(names, classes.values[:, 0].tolist(), strict=True))
        facts["recall"] = dict(zip(names, classes.values[:, 2].tolist(), strict=True))
    said = task.conclusion(learners, names)
    return Summary(said, tables=tables, facts=facts, task=task, learners=learners, names=names)


def result_summary(result: ProgressiveResult, recent: RecentErrors | None = None, deviations: Any = None) -> Summary:
    """The summary of a progressive evaluation.

    Parameters
    ----------
    result : what `progressive` or a session found
    recent : the last predictions and outcomes of numbers; by default those that the result kept
    deviations : (d,) standard deviations of the outputs, for R2
    """
    found = score_summary(result.task, result.learners, [str(name) for name in result.names])
    alarms = [] if result.drift is None else list(result.drift.alarms)
    found.sentences.append(
        f"{result.n_rows - result.untested:,} rows were predicted before they were learned, after a warm-up of "
        f"{result.untested:,}"
    )
    if alarms:
        last = ", ".join(f"{row:,}" for row in alarms[-5:])
        found.sentences.append(f"alarms of drift (errors that rose): {len(alarms):,}, the last at row {last}")
    found.result, found.targets = result, list(result.outputs)
    found.facts |= {"warm_up": result.untested, "model": result.model.name, "alarms": alarms}
    if result.task.numeric:
        recent = _kept_rows(result) if recent is None else recent
        found.recent = recent if recent is not None and len(recent.Y) else None
        _add_model_table(found, result.mse, deviations)
    else:
        if result.n_missing:
            found.sentences.append(f"{result.n_missing:,} rows had no label: they were predicted, not learned")
        found.facts["rows_without_label"] = result.n_missing
    return found


def _add_model_table(found: Summary, mse: Array, deviations: Any) -> None:
    """RMSE, R2 and intervals of the model."""
    columns = {"RMSE": np.sqrt(mse)}
    if deviations is not None:
        with np.errstate(divide="ignore", invalid="ignore"):
            r2 = 1.0 - mse / np.where(deviations > 0, deviations, np.nan) ** 2
        found.facts["r2"] = columns["R2"] = np.where(np.isfinite(r2), r2, np.nan)
    if found.recent is not None:
        shown = found.recent.shown
        columns |= {f"in {shown.percent} interval": shown.coverage, "median width": shown.width}
        found.facts |= interval_facts(found.recent)
    values = np.column_stack(list(columns.values()))
    found.tables.append(ScoreTable("errors and intervals of the model", tuple(found.names), tuple(columns), values))


def _kept_rows(result: ProgressiveResult) -> RecentErrors | None:
    """The last rows of a result that kept them."""
    if result.predictions is None or result.targets is None:
        return None
    d, first = len(result.outputs), result.untested
    F, Y = result.predictions.reshape(-1, d), result.targets.reshape(-1, d)
    recent = RecentErrors.empty(d, level=LEVEL if result.intervals is None else result.intervals.target)
    instants = as_instants(result.times)
    recent.update(F[first:], Y[first:], None if instants is None else instants[first:])
    return recent


def interval_facts(recent: RecentErrors) -> dict[str, Any]:
    """Level, coverage and width of the intervals."""
    shown = recent.shown
    return {"interval_level": shown.level, "interval_coverage": shown.coverage, "interval_width": shown.width}


# What the columns of a table hold, and what should be said about them.


def column_summary(
    preparation: Preparation, outputs: Sequence[str], moments: RunningMoments, n_rows: int
) -> list[ColumnRow]:
    """Outputs first, then inputs; a column of dates is one row, whatever number of inputs is made of it.

    The `moments` of the inputs and outputs, in this order, were computed from `n_rows` rows.
    """
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
    """Sentences about columns that may not be what they are read as, that never vary, or that seem to be identifiers.

    `table`: rows were learned as one table, of which groups can be left out.
    """
    sources = [source for column in preparation.columns_ for source in column.sources()]
    found = list(preparation.warnings_.values())
    for name, role, _, mean, sd in columns:
        if sd == 0 and (role == "output" or name in sources):
            why = "leaves nothing to learn" if role == "output" else "says nothing about the outputs"
            found.append(f"Column {name!r} is {mean:g} in every row, so that it {why}.")
    for name, count in preparation.id_like_.items():
        (column,) = (column for column in preparation.columns_ if name in column.sources())
        what = "categories" if isinstance(column, Category) else "a number"
        out = f"--ignore {name} (ignore=[{name!r}])"
        cure = f"If it only names things, leave it out: {out}."
        if table:
            cure = (
                f"If it names things, and new rows will be of new ones, give --groups {name} (groups={name!r}): errors "
                f"and intervals are then about these. {out} leaves the column out."
            )
        found.append(f"Column {name!r} takes {count:,} values, each in several rows, and is used as {what}. {cure}")
    for name, values in () if table else preparation.class_like_.items():
        some = ", ".join(values[:5]) + (", ..." if len(values) > 5 else "")
        found.append(f"Column {name!r} holds only {some}: if these are classes, learn them with --classify.")
    return found


#: Most kinds of faults that are told, and rows of each that are named.
MAX_FAULTS_TOLD, MAX_ROWS_NAMED = 5, 3


def bad_row_kinds(bad: int, faults: Sequence[BadRow]) -> list[str]:
    """A line for each kind of fault with how often it was met, the most frequent first, and one for all others."""
    rows: dict[str, list[int]] = {}
    for row, fault in faults:
        rows.setdefault(fault, []).append(row)
    lines, told = [], 0
    for fault, where in sorted(rows.items(), key=lambda pair: -len(pair[1]))[:MAX_FAULTS_TOLD]:
        named = ", ".join(map(str, where[:MAX_ROWS_NAMED])) + (", ..." if len(where) > MAX_ROWS_NAMED else "")
        lines.append(f"{fault}: row {named}" if len(where) == 1 else f"{fault}: {len(where)} rows ({named})")
        told += len(where)
    if bad > told:
        lines.append(f"{bad - told:,} more row{'s' if bad - told > 1 else ''}")
    return lines


def bad_rows_note(bad: int, faults: Sequence[BadRow]) -> str:
    """The same as one sentence."""
    return f"{bad:,} row{'s' if bad > 1 else ''} had unreadable cells ({'; '.join(bad_row_kinds(bad, faults))})."


# How much each column matters to what a model predicts.

#: Last inputs that are kept for it, and most inputs of a model of which it is computed.
MAX_ROWS_KEPT, MAX_INPUTS = 200, 500


def relevance(predictor: RowPredictor, X: Array | None) -> dict[str, float]:
    """How far predictions move when the cells of a column are exchanged between rows, the most relevant column first.

    With f the model and P_j X the rows in which column j (all inputs made of it, or one lagged output) was permuted,

        r_j = root mean square over rows and outputs of  (f(P_j X) - f(X)) / deviation of the output.

    It says what the model uses, not what causes what: of two columns that tell the same, either may have it all. X
    (n, p) are the inputs of the last rows, None if they were not kept.
    """
    preparation = predictor.preparation
    names = preparation.feature_names_
    if X is None or len(X) < 2 or len(names) > MAX_INPUTS:
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


#: Correlations of outputs below this, in size, are no coupling.
MIN_CORRELATION = 0.005


def kernel_in_words(kernel: Any, outputs: Sequence[str]) -> str:
    """Which scalar kernels a fitted kernel consists of, and how strongly it couples the outputs."""
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
    return f"{words}, outputs coupled (most: {outputs[i]} and {outputs[j]}, {between[i, j]:.2f})"
