"""Options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from ovk.app.cli.errors import Exit, Failure
from ovk.app.sessions import KERNELS, Settings
from ovk.app.tables import FORMATS as ENDINGS

#: Formats of files that are read.
FORMATS = tuple(dict.fromkeys(ENDINGS.values()))

File = Annotated[
    str, typer.Argument(help="CSV, JSON lines or Parquet (.gz, .xz, .bz2, .zst too); - is standard input.")
]
Source = Annotated[
    str, typer.Argument(help=f"{File.__metadata__[0].help} Or nats://host:4222/STREAM, kafka://host:9092/TOPIC.")
]
Targets = Annotated[str, typer.Option(help="Output columns, separated by commas.")]
Features = Annotated[
    str | None, typer.Option(help='Input columns, separated by commas; "" for none. [default: all others]')
]
Ignore = Annotated[str, typer.Option(help="Columns that are not used, such as visit,id, separated by commas.")]
Time = Annotated[
    str,
    typer.Option(
        "--time",
        help="Columns with the time of a row, such as Date,Time: adds the time of day, the day of the week and the "
        "time of year to the inputs, and predictions show the time.",
    ),
]


def _format(form: str) -> str:
    """Refuse a format that is not read."""
    if form and form not in FORMATS:
        raise Failure(f"--format must be one of {', '.join(FORMATS)}, got {form!r}", Exit.USAGE)
    return form


Format = Annotated[
    str,
    typer.Option(
        "--format",
        callback=_format,
        help=f"{', '.join(FORMATS)}. [default: by the name and the first bytes of the file]",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]
Out = Annotated[
    Path | None,
    typer.Option("--out", help="Write to this file instead of standard output; Parquet if it ends in .parquet."),
]
Keep = Annotated[
    str, typer.Option(help="Columns of the file to copy to the predictions, such as id, separated by commas.")
]
Level = Annotated[float, typer.Option(help="Probability with which an interval should contain the outcome.")]
LevelOfModel = Annotated[
    float | None, typer.Option(help=f"{Level.__metadata__[0].help} [default: that of the model, mostly 0.9]")
]
Lags = Annotated[str, typer.Option(help="Use the outputs from this many rows earlier as inputs, such as 1,2,60.")]
#: What `--coupling` is; commands add their default.
COUPLING = "How much the outputs have in common: at least 0, below 1."
Classify = Annotated[bool, typer.Option("--classify", help="The target holds classes: words, or a few whole numbers.")]
MaxBad = Annotated[
    float,
    typer.Option(help="Stop with an error if more than this share of the rows has unreadable cells.", min=0, max=1),
]
Horizon = Annotated[
    int, typer.Option(help="With --lags: how many rows ahead forecasts are tested, for `ovk forecast`.", min=0)
]
WarnBad = Annotated[
    float, typer.Option(help="Warn if more than this share of the rows has unreadable cells.", min=0, max=1)
]


def asked_settings(
    targets: str, features: str | None, time: str, lags: str, kernel: str, coupling: float | None, **others: Any
) -> Settings:
    """The settings that options ask for."""
    return Settings(
        targets=listed(targets),
        features=None if features is None else listed(features),
        time=listed(time),
        lags=whole_numbers(lags, "--lags") if lags else [],
        kernel=kernel,
        coupling=coupling,
        **others,
    )


def check_kernel(kernel: str, coupling: float | None, *others: str) -> None:
    """Refuse a kernel or a coupling that no model takes; `others` are kernels of this command alone."""
    if kernel not in (*others, *KERNELS):
        raise Failure(f"--kernel must be one of {', '.join((*others, *KERNELS))}, got {kernel!r}", Exit.USAGE)
    if coupling is not None and not 0 <= coupling < 1:
        raise Failure(
            f"--coupling must be at least 0 and below 1, got {coupling:g}: at 1 all outputs would be the same",
            Exit.USAGE,
        )


def check_level(level: float | None) -> None:
    """Refuse a level of intervals that is no probability."""
    if level is not None and not 0 < level < 1:
        raise Failure(f"--level must lie between 0 and 1, such as 0.9, got {level:g}", Exit.USAGE)


def listed(text: str) -> list[str]:
    """Names separated by commas; a name that holds one stands in double quotes.

    >>> listed('a, b,"c,d"')
    ['a', 'b', 'c,d']
    """
    import csv

    names = next(csv.reader([text], skipinitialspace=True), [])
    return [name.strip() for name in names if name.strip()]


def whole_numbers(text: str, option: str) -> list[int]:
    """Whole numbers separated by commas.

    >>> whole_numbers("1,2,60", "--lags")
    [1, 2, 60]
    """
    try:
        numbers = [int(one) for one in listed(text)]
    except ValueError:
        numbers = [0]
    if any(number < 1 for number in numbers):
        raise Failure(f"{option} must be whole numbers from 1 on, separated by commas, got {text!r}", Exit.USAGE)
    return numbers
