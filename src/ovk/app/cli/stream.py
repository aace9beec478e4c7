"""``ovk stream``: learn a file of any length, row by row."""

from __future__ import annotations

import signal
import sys
import time
from contextlib import nullcontext, redirect_stdout
from pathlib import Path
from typing import Annotated, Any

import typer

from ovk.app.cli.errors import Exit, Failure, check_model_path, check_output_path, check_report_path, exit_code_on_error
from ovk.app.cli.options import (
    COUPLING,
    Classify,
    Features,
    Format,
    Horizon,
    Ignore,
    Json,
    Lags,
    Level,
    MaxBad,
    Source,
    Targets,
    Time,
    WarnBad,
    asked_settings,
    check_kernel,
    check_level,
    listed,
)
from ovk.app.cli.output import ProgressDisplay, err, out, print_json
from ovk.app.cli.summaries import peak_memory, print_session, summary
from ovk.app.sessions import MODELS, Interrupted, Settings, StopSignals, learn, load_session
from ovk.app.tables import Records, is_address, open_broker, open_records

_MODELS = ", ".join(["auto", *MODELS])
_MODEL_HELP = (
    "autostream (experts that are weighted by their errors: follows drift and curved functions); pkawv (least squares "
    "on the inputs and 50 random features: ten times as fast, forgets nothing, can be merged); olok (gradient steps on "
    "the last 1,000 rows: for many inputs). auto is autostream; pkawv with --kernel or --coupling; olok above 500 "
    "inputs."
)


def command(
    context: typer.Context,
    file: Source,
    targets: Targets = "",
    features: Features = None,
    ignore: Ignore = "",
    time_columns: Time = "",
    lags: Lags = "",
    model: Annotated[str, typer.Option(help=_MODEL_HELP)] = "auto",
    kernel: Annotated[
        str, typer.Option(help="gaussian, laplacian, matern or linear; autostream chooses.")
    ] = "gaussian",
    coupling: Annotated[float | None, typer.Option(help=f"{COUPLING} [default: 0; autostream chooses]")] = None,
    warm_up: Annotated[
        int, typer.Option(help="First rows, which set scaling and kernel width; they are not tested.", min=2)
    ] = 1000,
    block: Annotated[int, typer.Option(help="Rows read at a time.", min=1)] = 4096,
    checkpoint: Annotated[int, typer.Option(help="Rows between two checkpoints.", min=1)] = 100_000,
    save: Annotated[Path | None, typer.Option(help="File for the model, written at every checkpoint.")] = None,
    resume: Annotated[
        Path | None, typer.Option(help="Continue this model after the rows of the file that it has learned.")
    ] = None,
    continue_with: Annotated[
        Path | None, typer.Option(help="Continue this model with another file that has the same columns.")
    ] = None,
    like: Annotated[
        Path | None,
        typer.Option(help="Start with the columns, scaling and features of this model, to merge with it later."),
    ] = None,
    report: Annotated[Path | None, typer.Option(help="Write a report (HTML) to this file.")] = None,
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
    classify: Classify = False,
    horizon: Horizon = 24,
    level: Level = 0.9,
    max_bad: MaxBad = 0.2,
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
    if model not in ("auto", *MODELS):
        raise Failure(f"--model must be one of {_MODELS}, got {model!r}", Exit.USAGE)
    check_kernel(kernel, coupling)
    for option in ("kernel", "coupling"):
        if model == "autostream" and _is_given(context, option):
            raise Failure(
                f"--{option} and --model autostream exclude each other, since autostream chooses it: leave out "
                f"--{option}, or give --model pkawv",
                Exit.USAGE,
            )
    check_level(level)
    options: dict[str, Any] = {"model": model, "warm_up": warm_up, "block": block, "every": checkpoint}
    options |= {"max_bad": max_bad, "horizon": horizon, "classify": classify, "ignore": listed(ignore), "level": level}
    asked = asked_settings(targets, features, time_columns, lags, kernel, coupling, **options)
    with exit_code_on_error(Exit.USAGE):
        asked.check()
    _check_places(save, resume, continue_with, like, report, predictions)
    if parquet and predictions in ("", "-"):
        raise Failure("--parquet writes files: name a folder for them with --predictions", Exit.USAGE)
    settings = _settings_to_start_with(asked, context, resume, continue_with, like)
    start = time.perf_counter()
    place = save or resume or continue_with
    with StopSignals() as stop:
        try:
            broker: dict[str, Any] = {"follow": follow, "id_column": id_column or None, "id_memory": id_memory}
            broker |= {"columns": listed(columns) or None, "accept_gap": accept_gap}
            with exit_code_on_error(Exit.DATA), _opened(file, form or None, broker, context) as records:
                # Blocks are full, and the model the same whenever rows come, unless somebody waits for the predictions.
                records.live = predictions == "-"
                with ProgressDisplay(records) as display:
                    session = learn(
                        records,
                        settings,
                        save_to=place,
                        resume=resume,
                        continue_with=continue_with,
                        like=like,
                        predictions=predictions or None,
                        parquet=parquet,
                        watch=display.show,
                        stop=stop,
                    )
        except KeyboardInterrupt as error:
            code = Exit.TERMINATED if stop.received == signal.SIGTERM else Exit.INTERRUPTED
            raise Failure(_interrupted(error, place), code) from None
    seconds = time.perf_counter() - start
    used = {"rows_this_run": display.rows, "seconds": seconds, "peak_memory_mb": peak_memory()}
    # Where predictions are printed, everything else goes to standard error.
    with redirect_stdout(sys.stderr) if predictions == "-" else nullcontext():
        if report is not None:
            from ovk.app.report import report as write

            write(session.result(), report, **session.for_report(file), seconds=seconds)
        if as_json:
            print_json({**summary(session), **used, "model_file": place, "report": report})
            return
        print_session(session, used, warn_bad)
        for what, path in {"model": place, "predictions": predictions.removeprefix("-"), "report": report}.items():
            if path:
                out.print(f"{what}: {path}", markup=False)


def _opened(file: str, form: str | None, broker: dict[str, Any], context: typer.Context) -> Records:
    """The rows of a file, or those of a broker's stream."""
    if is_address(file):
        with exit_code_on_error(Exit.USAGE):
            return open_broker(file, form=form, **broker)
    for name in broker:
        if _is_given(context, name):
            raise Failure(f"--{name.replace('_', '-')} is for streams of brokers, and {file} is a file", Exit.USAGE)
    with exit_code_on_error(Exit.DATA):
        return open_records(file, form)


#: Options that a session keeps, by the names of its settings; and what they are called in the command below, where
#: that differs.
_OPTIONS = {
    **{name: f"--{name}" for name in ("targets", "features", "time", "lags", "model", "kernel", "coupling", "block")},
    "warm_up": "--warm-up",
    "every": "--checkpoint",
    "max_bad": "--max-bad",
    "classify": "--classify",
    "horizon": "--horizon",
    "ignore": "--ignore",
    "level": "--level",
}
_ARGUMENTS = {"time": "time_columns", "every": "checkpoint"}


def _settings_to_start_with(
    asked: Settings, context: typer.Context, resume: Path | None, continue_with: Path | None, like: Path | None
) -> Settings | None:
    """What was asked for; None where a model goes on with its own settings, which must not be asked to be others."""
    path = resume if resume is not None and (resume.exists() or like is None) else continue_with or like
    if path is None or (path == resume and not resume.exists()):
        if asked.targets:
            if path is not None:
                err.print(f"there is no {path} yet: starting at the first row", markup=False)
            return asked
        missing = f"there is no model {path} yet: to start one, give" if path else "name the output columns with"
        raise Failure(f"{missing} --targets, such as --targets a,b,c", Exit.USAGE)
    with exit_code_on_error(Exit.MODEL):
        kept = load_session(path).settings
    differing = kept.differences(asked)
    given = [name for name in _OPTIONS if _is_given(context, _ARGUMENTS.get(name, name))]
    if not asked.targets:
        # What was not asked for is as the model has it.
        differing = [name for name in differing if name in given]
    if differing:
        found = ", ".join(f"{_OPTIONS[name]} {_shown(getattr(kept, name))}" for name in differing)
        # Who names the targets describes a whole model.
        leave = [_OPTIONS[name] for name in given if name in differing or name == "targets"]
        raise Failure(
            f"{path} was learned with other settings ({found}), which it keeps when it continues: leave out "
            f"{' and '.join(leave)}, or start anew without it",
            Exit.USAGE,
        )
    return None


def _is_given(context: typer.Context, argument: str) -> bool:
    """Whether an option was given on the command line. (By name, since typer may bring a click of its own.)"""
    source = context.get_parameter_source(argument)
    return source is not None and source.name == "COMMANDLINE"


def _shown(value: Any) -> str:
    """A setting as it is given on the command line.

    >>> _shown([1, 2]), _shown(None), _shown(0.5)
    ('1,2', '(none)', '0.5')
    """
    return ",".join(map(str, value)) or "(none)" if isinstance(value, (list, tuple)) else str(value or "(none)")


def _interrupted(error: KeyboardInterrupt, place: Path | None) -> str:
    """What is safe after an interruption, and how to go on."""
    if place is None:
        return "interrupted: nothing was saved; with --save the run could be continued"
    cure = f"continue with --resume {place}"
    if isinstance(error, Interrupted) and error.saved is not None:
        return f"interrupted: {error.saved:,} rows are safe in {place}: {cure}"
    if not place.exists():
        return f"interrupted before anything was learned: there is no {place} yet"
    if isinstance(error, Interrupted):
        return f"interrupted before anything new was learned: {place} is as it was"
    return f"interrupted twice: {place} is as the last checkpoint left it: {cure}"


def _check_places(
    save: Path | None,
    resume: Path | None,
    continue_with: Path | None,
    like: Path | None,
    report: Path | None,
    predictions: str,
) -> None:
    """What would fail after hours should fail at once."""
    if continue_with is not None and (resume is not None or like is not None):
        other = "--like" if resume is None else "--resume"
        raise Failure(f"{other} and --continue-with exclude each other: give one of them", Exit.USAGE)
    if like is not None and like in (save, resume):
        raise Failure(f"--like {like} is the model to start like: give the new one another name", Exit.USAGE)
    files = {"--save": save, "--resume": resume, "--continue-with": continue_with}
    for option, path in files.items():
        check_output_path(path, option)
    check_report_path(report, save, resume, continue_with)
    for path, purpose in ((continue_with, "continue with"), (like, "start like")):
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
