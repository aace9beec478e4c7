"""``ovk stream``: learn a file of any length, row by row."""

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
    Format,
    Json,
    Report,
    Source,
    WarnBad,
    check_model_path,
    check_output_path,
    check_report_path,
    listed,
    takes_settings,
)
from ovk.app.cli.output import Exit, Failure, ProgressDisplay, err, exit_code_on_error, print_json, print_summary, show
from ovk.app.sessions import Interrupted, Settings, StopSignals, learn, load_session, option_of
from ovk.app.tables import Records, is_address, open_broker, open_records

#: Seconds of learning after which a faster model is named.
MIN_SECONDS_FOR_TIP = 60.0


@takes_settings(Settings, "stream")
def command(
    file: Source,
    settings: Settings,
    given: set[str],
    save: Annotated[Path | None, typer.Option(help="File for the model, written at every checkpoint.")] = None,
    resume: Annotated[
        Path | None, typer.Option(help="Continue this model after the rows of the file that it has learned.")
    ] = None,
    continue_with: Annotated[
        Path | None, typer.Option(help="Continue this model with another file that has the same columns.")
    ] = None,
    template: Annotated[
        Path | None,
        typer.Option(help="Start with the columns, scaling and features of this model, to merge with it later."),
    ] = None,
    report: Report = None,
    predictions: Annotated[str, typer.Option(help="Folder for the predictions, in parts; - prints them.")] = "",
    parquet: Annotated[bool, typer.Option("--parquet", help="Write the parts of --predictions as Parquet.")] = False,
    follow: Annotated[bool, typer.Option("--follow", help="With a broker: wait for new rows until Ctrl-C.")] = False,
    id_column: Annotated[
        str, typer.Option(help="With a broker: column that identifies a row; repeated rows are dropped.")
    ] = "",
    id_memory: Annotated[int, typer.Option(help="With --id-column: how many ids are remembered.", min=1)] = 100_000,
    columns: Annotated[str, typer.Option(help="With a broker: column names of CSV lines without a header.")] = "",
    accept_gap: Annotated[
        bool,
        typer.Option(
            "--accept-gap", help="With a broker: continue although it has deleted messages that were not learned."
        ),
    ] = False,
    warn_bad: WarnBad = 0.01,
    form: Format = "",
    as_json: Json = False,
) -> None:
    """Learn a file of any length, in bounded memory: every row is predicted before the model learns from it.

    Numbers, words and dates are recognised. Missing inputs are filled in, missing outputs are skipped; cells and rows
    that cannot be read are counted and reported.

    With --save, the run can be killed at any time and continued with --resume: no row is lost or learned twice.
    Ctrl-C and SIGTERM save what was learned; a second signal stops at once.

    Example: ovk stream power.csv --targets kitchen,laundry --time Date,Time --lags 1,2 --save model.ovk
    """
    for option in ("kernel", "coupling"):
        if settings.model == "autostream" and option in given:
            raise Failure(
                f"--{option} and --model autostream exclude each other, since autostream chooses it: leave out "
                f"--{option}, or give --model pkawv",
                Exit.USAGE,
            )
    _check_paths(save, resume, continue_with, template, report, predictions)
    if parquet and predictions in ("", "-"):
        raise Failure("--parquet writes files: name a folder for them with --predictions", Exit.USAGE)
    start = time.perf_counter()
    path = save or resume or continue_with
    own = _settings_to_start_with(settings, given, resume, continue_with, template)
    with StopSignals() as stop:
        try:
            broker: dict[str, Any] = {"follow": follow, "id_column": id_column or None, "id_memory": id_memory}
            broker |= {"columns": listed(columns) or None, "accept_gap": accept_gap}
            with exit_code_on_error(Exit.DATA), _opened(file, form or None, broker, given) as records:
                # Blocks are full, and the model the same whenever rows come, unless somebody waits for the predictions.
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
            raise Failure(_interrupted(error, path), code) from None
    seconds, rows, memory = time.perf_counter() - start, display.rows, peak_memory()
    run = "; there were no new rows in this run"
    if rows:
        now = f", {rows:,} of them in this run" if rows != session.offset else ""
        rate = rows / max(seconds, 1e-9)
        run = f"{now}; learning took {seconds:.1f} s ({rate:,.0f} rows a second, at most {memory:,.0f} MB of memory)"
    summary = session.summary(run)
    summary.facts |= {"rows_this_run": rows, "seconds": seconds, "peak_memory_mb": memory}
    # Where predictions are printed, everything else goes to standard error.
    with redirect_stdout(sys.stderr) if predictions == "-" else nullcontext():
        if report is not None:
            from ovk.app.report import report as write

            write(summary, report, title=f"What was learned from {file}")
        if as_json:
            print_json({**summary.facts, "model_file": path, "report": report})
            return
        print_summary(
            summary, warn_bad, {"model": path, "predictions": predictions.removeprefix("-"), "report": report}
        )
    if session.settings.model == "auto" and summary.facts["model"] == "AutoStream" and seconds > MIN_SECONDS_FOR_TIP:
        show("Tip: --model pkawv is about ten times faster, but simpler, and does not adapt to drift", err)


def peak_memory() -> float:
    """Most memory held so far, in MB; nan where the system does not tell.

    >>> peak_memory() > 1
    True
    """
    try:
        import resource
    except ImportError:  # Windows
        return float("nan")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (1e6 if sys.platform == "darwin" else 1e3)


def _opened(file: str, form: str | None, broker: dict[str, Any], given: set[str]) -> Records:
    """The rows of a file, or those of a broker's stream."""
    if is_address(file):
        with exit_code_on_error(Exit.USAGE):
            return open_broker(file, form=form, **broker)
    for name in broker:
        if name in given:
            raise Failure(f"--{name.replace('_', '-')} is for streams of brokers, and {file} is a file", Exit.USAGE)
    with exit_code_on_error(Exit.DATA):
        return open_records(file, form)


def _settings_to_start_with(
    asked: Settings, given: set[str], resume: Path | None, continue_with: Path | None, template: Path | None
) -> Settings | None:
    """What was asked for; None where a model goes on with its own settings, which must not be asked to be others."""
    path = resume if resume is not None and (resume.exists() or template is None) else continue_with or template
    if path is None or (path == resume and not resume.exists()):
        if asked.targets:
            if path is not None:
                show(f"there is no {path} yet: starting at the first row", err)
            return asked
        missing = f"there is no model {path} yet: to start one, give" if path else "name the output columns with"
        raise Failure(f"{missing} --targets, such as --targets a,b,c", Exit.USAGE)
    with exit_code_on_error(Exit.MODEL):
        kept = load_session(path).settings
    differing = kept.differences(asked)
    if not asked.targets:
        # What was not asked for is as the model has it.
        differing = [name for name in differing if name in given]
    if differing:
        options = {one.name: option_of(one) for one in fields(Settings)}
        found = ", ".join(f"{options[name]} {_shown(getattr(kept, name))}" for name in differing)
        # Who names the targets describes a whole model.
        leave = [option for name, option in options.items() if name in given and name in (*differing, "targets")]
        raise Failure(
            f"{path} was learned with other settings ({found}), which it keeps when it continues: leave out "
            f"{' and '.join(leave)}, or start anew without it",
            Exit.USAGE,
        )
    return None


def _shown(value: Any) -> str:
    """A setting as it is given on the command line."""
    return ",".join(map(str, value)) or "(none)" if isinstance(value, (list, tuple)) else str(value or "(none)")


def _interrupted(error: KeyboardInterrupt, path: Path | None) -> str:
    """What is safe after an interruption, and how to go on."""
    if path is None:
        return "interrupted: nothing was saved; with --save the run could be continued"
    cure = f"continue with --resume {path}"
    if isinstance(error, Interrupted) and error.saved is not None:
        return f"interrupted: {error.saved:,} rows are safe in {path}: {cure}"
    if not path.exists():
        return f"interrupted before anything was learned: there is no {path} yet"
    if isinstance(error, Interrupted):
        return f"interrupted before anything new was learned: {path} is as it was"
    return f"interrupted twice: {path} is as the last checkpoint left it: {cure}"


def _check_paths(
    save: Path | None,
    resume: Path | None,
    continue_with: Path | None,
    template: Path | None,
    report: Path | None,
    predictions: str,
) -> None:
    """What would fail after hours should fail at once."""
    if continue_with is not None and (resume is not None or template is not None):
        other = "--template" if resume is None else "--resume"
        raise Failure(f"{other} and --continue-with exclude each other: give one of them", Exit.USAGE)
    if template is not None and template in (save, resume):
        raise Failure(f"--template {template} is the model to start from: give the new one another name", Exit.USAGE)
    files = {"--save": save, "--resume": resume, "--continue-with": continue_with}
    for option, path in files.items():
        check_output_path(path, option)
    check_report_path(report, save, resume, continue_with)
    for path, purpose in ((continue_with, "continue with"), (template, "start from")):
        if path is not None and not path.exists():
            raise Failure(f"there is no model {path} to {purpose}: check the path", Exit.USAGE)
    folder = Path(predictions)
    if predictions not in ("", "-") and folder.exists() and not folder.is_dir():
        raise Failure(f"--predictions {predictions} is a file: name a folder", Exit.USAGE)
    if is_address(predictions) or (folder.suffix in (".csv", ".parquet") and not folder.exists()):
        what = "is an address" if is_address(predictions) else "looks like a file"
        raise Failure(
            f"--predictions {predictions} {what}: name a folder, such as {folder.stem}, in which the parts are written",
            Exit.USAGE,
        )
    if save not in (resume, continue_with):
        check_model_path(save)
