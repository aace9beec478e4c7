"""``ovk stream``: learn from a file of any length, row by row."""

from __future__ import annotations

import signal
import sys
import time
from contextlib import nullcontext, redirect_stdout
from dataclasses import fields
from pathlib import Path
from typing import Annotated, Any

import typer

from ovk.app.cli.options import (
    NAMES,
    Format,
    Json,
    Report,
    Source,
    WarnBad,
    check_model_path,
    check_output_path,
    check_report_path,
    split_names,
    takes_settings,
)
from ovk.app.cli.output import CommandError, Exit, ProgressDisplay, err, exit_code_on_error, publish, show
from ovk.app.sessions import Interrupted, Settings, StopSignals, learn, load_session, option_of
from ovk.app.tables import Records, is_address, open_broker, open_records

#: Seconds of learning after which a tip suggests a faster model.
MIN_SECONDS_FOR_TIP = 60.0


@takes_settings(Settings, "stream")
def command(
    file: Source,
    settings: Settings,
    given: set[str],
    save: Annotated[Path | None, typer.Option(help="File for the model, written at every checkpoint.")] = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Let --save replace the model of an earlier run.")
    ] = False,
    resume: Annotated[
        Path | None, typer.Option(help="Resume this model after the rows of the file that it has learned.")
    ] = None,
    continue_with: Annotated[
        Path | None, typer.Option(help="Continue this model with another file that has the same columns.")
    ] = None,
    template: Annotated[
        Path | None,
        typer.Option(help="Start with the columns, scaling and features of this model, to merge with it later."),
    ] = None,
    report: Report = None,
    predictions: Annotated[str, typer.Option(help="Directory for files of predictions; - prints them.")] = "",
    parquet: Annotated[bool, typer.Option("--parquet", help="Write --predictions as Parquet.")] = False,
    follow: Annotated[bool, typer.Option("--follow", help="With a broker: wait for new rows until Ctrl-C.")] = False,
    id_column: Annotated[
        str, typer.Option(help="With a broker: column that identifies a row; repeated rows are dropped.")
    ] = "",
    id_memory: Annotated[int, typer.Option(help="With --id-column: how many ids are kept.", min=1)] = 100_000,
    columns: Annotated[
        list[str] | None, typer.Option(help="With a broker: column names of CSV lines without a header.", metavar=NAMES)
    ] = None,
    accept_gap: Annotated[
        bool,
        typer.Option(
            "--accept-gap", help="With a broker: continue even if it has deleted messages that were not learned."
        ),
    ] = False,
    warn_bad: WarnBad = 0.01,
    form: Format = "",
    as_json: Json = False,
) -> None:
    """Learn from a file of any length in bounded memory: each row is predicted before the model learns from it.

    Numbers, words and dates are detected. Missing inputs are imputed, missing outputs are skipped; unreadable cells and
    rows are counted and reported.

    With --save, a killed run resumes with --resume: no row is lost or learned twice. Ctrl-C and SIGTERM save what was
    learned; a second signal stops immediately.

    Example: ovk stream power.csv --targets kitchen,laundry --time Date,Time --lags 1,2 --save model.ovk
    """
    for option in ("kernel", "coupling"):
        if settings.model == "autostream" and option in given:
            raise CommandError(
                f"--{option} and --model autostream cannot be combined: autostream chooses it by itself; omit "
                f"--{option}, or pass --model pkawv"
            )
    _check_paths(save, resume, continue_with, template, report, predictions, overwrite)
    if parquet and predictions in ("", "-"):
        raise CommandError("--parquet requires a directory: pass --predictions DIRECTORY")
    start = time.perf_counter()
    path = save or resume or continue_with
    own = _settings_to_start_with(settings, given, resume, continue_with, template)
    with StopSignals() as stop:
        try:
            broker: dict[str, Any] = {"follow": follow, "id_column": id_column or None, "id_memory": id_memory}
            broker |= {"columns": split_names(columns) or None, "accept_gap": accept_gap}
            with exit_code_on_error(Exit.DATA), _opened(file, form or None, broker, given) as records:
                # Blocks are full, so that the model does not depend on timing, unless predictions are printed.
                records.live = predictions == "-"
                with ProgressDisplay(records) as display:
                    session = learn(
                        records,
                        own,
                        save_to=path,
                        resume=resume,
                        continue_with=continue_with,
                        template=template,
                        predictions=predictions or None,
                        parquet=parquet,
                        on_progress=display.show,
                        stop=stop,
                    )
        except KeyboardInterrupt as error:
            code = Exit.TERMINATED if stop.received == signal.SIGTERM else Exit.INTERRUPTED
            raise CommandError(_interrupted(error, path), code) from None
    seconds, rows, memory = time.perf_counter() - start, display.rows, peak_memory()
    run = "; no new rows in this run"
    if rows:
        now = f", {rows:,} of them in this run" if rows != session.offset else ""
        rate = rows / max(seconds, 1e-9)
        run = f"{now}; learning took {seconds:.1f} s ({rate:,.0f} rows/s, peak memory {memory:,.0f} MB)"
    summary = session.summary(run)
    summary.facts |= {"rows_this_run": rows, "seconds": seconds, "peak_memory_mb": memory}
    files = {"model": path, "predictions": predictions.removeprefix("-"), "report": report}
    # If predictions are printed, everything else goes to standard error.
    with redirect_stdout(sys.stderr) if predictions == "-" else nullcontext():
        publish(summary, files, f"Results for {file}", warn_bad, as_json=as_json)
    observed = [seen for _, role, seen, *_ in summary.columns if role == "output"]
    if observed and not any(observed):
        names = ", ".join(repr(name) for name in session.settings.targets)
        raise CommandError(f"nothing was learned: no row of {file} has a value of the targets {names}", Exit.DATA)
    if not as_json and (tip := records.tip()):
        show(tip, err)
    slow = summary.facts["model"] == "AutoStream" and seconds > MIN_SECONDS_FOR_TIP
    if slow and session.settings.model == "auto" and not as_json:
        show("Tip: --model pkawv is about ten times faster, but simpler, and does not adapt to drift.", err)


def peak_memory() -> float:
    """Peak memory in MB; nan where it is unknown."""
    try:
        import resource
    except ImportError:  # Windows
        return float("nan")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (1e6 if sys.platform == "darwin" else 1e3)


def _opened(file: str, form: str | None, broker: dict[str, Any], given: set[str]) -> Records:
    if is_address(file):
        with exit_code_on_error(Exit.USAGE):
            return open_broker(file, form=form, **broker)
    for name in broker:
        if name in given:
            raise CommandError(f"--{name.replace('_', '-')} requires a broker, and {file} is a file")
    with exit_code_on_error(Exit.DATA):
        return open_records(file, form)


def _settings_to_start_with(
    asked: Settings, given: set[str], resume: Path | None, continue_with: Path | None, template: Path | None
) -> Settings | None:
    """The settings of a new model; None for an existing one, whose settings must not differ from those given."""
    path = resume if resume is not None and (resume.exists() or template is None) else continue_with or template
    if path is None or (path == resume and not resume.exists()):
        if asked.targets:
            if path is not None:
                show(f"{path} does not exist yet: starting at the first row", err)
            return asked
        missing = f"the model {path} does not exist yet; to start one, pass" if path else "pass the output columns with"
        raise CommandError(f"{missing} --targets, such as --targets a,b,c")
    with exit_code_on_error(Exit.MODEL):
        kept = load_session(path).settings
    differing = kept.differences(asked)
    if not asked.targets:
        # Options that are not given default to the settings of the model.
        differing = [name for name in differing if name in given]
    if differing:
        options = {one.name: option_of(one) for one in fields(Settings)}
        found = ", ".join(f"{options[name]} {_shown(getattr(kept, name))}" for name in differing)
        # With --targets, the options describe a complete model.
        omit = [option for name, option in options.items() if name in given and name in (*differing, "targets")]
        raise CommandError(
            f"{path} was learned with different settings ({found}), which it keeps: omit {' and '.join(omit)}, or "
            "start a new model"
        )
    return None


def _shown(value: Any) -> str:
    return ",".join(map(str, value)) or "(none)" if isinstance(value, (list, tuple)) else str(value or "(none)")


def _interrupted(error: KeyboardInterrupt, path: Path | None) -> str:
    """What was saved before an interruption, and how to continue."""
    if path is None:
        return "interrupted: nothing was saved; pass --save to make a run resumable"
    advice = f"continue with --resume {path}"
    if isinstance(error, Interrupted) and error.saved is not None:
        return f"interrupted: {error.saved:,} rows are saved in {path}; {advice}"
    if not path.exists():
        return f"interrupted before anything was learned: {path} was not written"
    if isinstance(error, Interrupted):
        return f"interrupted before anything new was learned: {path} has not changed"
    return f"interrupted twice: {path} contains the last checkpoint; {advice}"


def _check_paths(
    save: Path | None,
    resume: Path | None,
    continue_with: Path | None,
    template: Path | None,
    report: Path | None,
    predictions: str,
    overwrite: bool,
) -> None:
    """Reject paths with which the command would fail after learning."""
    if continue_with is not None and (resume is not None or template is not None):
        other = "--template" if resume is None else "--resume"
        raise CommandError(f"{other} and --continue-with cannot be combined")
    if template is not None and template in (save, resume):
        raise CommandError(f"--template: {template} is also the file of the new model; choose another name")
    files = {"--save": save, "--resume": resume, "--continue-with": continue_with}
    for option, path in files.items():
        check_output_path(path, option)
    check_report_path(report, save, resume, continue_with)
    for option, path in (("--continue-with", continue_with), ("--template", template)):
        if path is not None and not path.exists():
            raise CommandError(f"{option}: the model {path} does not exist")
    directory = Path(predictions)
    is_file = predictions not in ("", "-") and directory.exists() and not directory.is_dir()
    if is_file or is_address(predictions) or (directory.suffix in (".csv", ".parquet") and not directory.exists()):
        advice = f"must be a directory, such as {directory.stem}, for files of predictions"
        raise CommandError(f"--predictions: {predictions} {advice}")
    if save not in (resume, continue_with):
        check_model_path(save)
        if save is not None and save.exists() and save.stat().st_size and not overwrite:
            raise CommandError(
                f"--save: {save} is the model of an earlier run: continue it with --resume {save}, or replace it with "
                "--overwrite"
            )
