"""Options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ovk.cli.errors import Exit, Failure

File = Annotated[str, typer.Argument(help="CSV, JSON lines or Parquet (.gz, .xz, .bz2 too); - is standard input.")]
Targets = Annotated[str, typer.Option(help="Output columns, separated by commas.")]
Features = Annotated[str, typer.Option(help="Input columns, separated by commas. [default: all others]")]
Time = Annotated[str, typer.Option(help="Columns with the time of a row (Date,Time): calendar inputs.")]
Format = Annotated[str, typer.Option("--format", help="csv, jsonl or parquet. [default: by the name of the file]")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON, for machines.")]
Data = Annotated[Path | None, typer.Option("--data", help="Folder of the data sets. [default: the variable OVK_DATA]")]


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
