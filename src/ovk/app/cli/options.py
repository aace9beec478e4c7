"""Options: those that several commands share, those of the settings, and which files commands may write."""

from __future__ import annotations

import csv
import inspect
from collections.abc import Callable, Iterable
from dataclasses import MISSING, Field
from pathlib import Path
from typing import Annotated, Any

import typer

from ovk.app.cli.output import Exit, Failure, exit_code_on_error
from ovk.app.sessions import Settings, declared, option_of
from ovk.app.tables import FORMATS as ENDINGS
from ovk.persistence import ChangedClass, CorruptFile, NewerFormat, UnknownClass
from ovk.persistence import inspect as inspect_file

#: Formats of files that are read.
FORMATS = tuple(dict.fromkeys(ENDINGS.values()))

File = Annotated[
    str, typer.Argument(help="CSV, JSON lines or Parquet (.gz, .xz, .bz2, .zst too); - is standard input.")
]
Source = Annotated[
    str, typer.Argument(help=f"{File.__metadata__[0].help} Or nats://host:4222/STREAM, kafka://host:9092/TOPIC.")
]
Report = Annotated[Path | None, typer.Option(help="Write a report (HTML) to this file.")]


def _format(form: str) -> str | None:
    """Refuse a format that is not read."""
    if form and form not in FORMATS:
        raise Failure(f"--format must be one of {', '.join(FORMATS)}, got {form!r}", Exit.USAGE)
    return form or None


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
WarnBad = Annotated[
    float, typer.Option(help="Warn if more than this share of the rows has unreadable cells.", min=0, max=1)
]


def _level(level: float | None) -> float | None:
    """Refuse a level of intervals that is no probability."""
    if level is not None and not 0 < level < 1:
        raise Failure(f"--level must lie between 0 and 1, such as 0.9, got {level:g}", Exit.USAGE)
    return level


LevelOfModel = Annotated[
    float | None,
    typer.Option(
        "--level",
        callback=_level,
        help="Probability with which an interval should contain the outcome. [default: the model's level, usually 0.9]",
    ),
]


# An option for each setting, as a class declares it.


def takes_settings(cls: type, name: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give the command of that name an option for each setting that a class such as `Settings` declares.

    The options stand in the place of its parameter `settings`. A parameter `given` has the names of the parameters that
    stand on the command line.
    """

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        options = declared(cls, name)
        own = inspect.signature(command, eval_str=True).parameters

        def run(context: typer.Context, **values: Any) -> None:
            if "given" in own:
                sources = {one: context.get_parameter_source(one) for one in values}
                values["given"] = {one for one, source in sources.items() if source and source.name == "COMMANDLINE"}
            settings = cls(**{one.name: _parsed(one, values.pop(one.name)) for one in options})
            if isinstance(settings, Settings):
                with exit_code_on_error(Exit.USAGE):
                    settings.check(options=True)
            command(**values, settings=settings)

        every = [inspect.Parameter("context", inspect.Parameter.KEYWORD_ONLY, annotation=typer.Context)]
        for one in own.values():
            every += [setting_option(field, name) for field in options] if one.name == "settings" else [one]
        every = [one.replace(kind=inspect.Parameter.KEYWORD_ONLY) for one in every if one.name != "given"]
        run.__signature__ = inspect.Signature(every)  # type: ignore[attr-defined]
        run.__annotations__ = {one.name: one.annotation for one in every}
        run.__doc__ = command.__doc__
        return run

    return decorate


def setting_option(setting: Field[Any], command: str) -> inspect.Parameter:
    """The option of a setting: lists are given as text."""
    help, low, high = (setting.metadata[name] for name in ("help", "low", "high"))
    kinds: dict[str, Any] = {"int": int, "float": float, "bool": bool, "str": str, "float | None": float | None}
    kind = kinds.get(setting.type, str | None if setting.default is None else str)  # type: ignore[arg-type]
    default = setting.default
    if default is MISSING:
        default = inspect.Parameter.empty if command == "fit" else ""
    elif default == ():
        default = ""
    option = typer.Option(option_of(setting), help=help[command] if isinstance(help, dict) else help, min=low, max=high)
    return inspect.Parameter(
        setting.name, inspect.Parameter.POSITIONAL_OR_KEYWORD, default=default, annotation=Annotated[kind, option]
    )


def _parsed(setting: Field[Any], value: Any) -> Any:
    """The value of a setting that an option gives."""
    if setting.type == "Sequence[int]":
        return whole_numbers(value, option_of(setting))
    if str(setting.type).startswith("Sequence[str]"):
        return None if value is None else listed(value)
    return (value.strip() or None) if setting.default is None and isinstance(value, str) else value


def listed(text: str) -> list[str]:
    """Names separated by commas; a name that holds one stands in double quotes.

    >>> listed('a, b,"c,d"')
    ['a', 'b', 'c,d']
    """
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


# Where commands write: what would fail after hours, or destroy what is read, is refused at once.

#: Endings of a page.
PAGE_ENDINGS = (".html", ".htm")


def check_output_path(
    path: Path | None,
    option: str = "--out",
    *,
    models: Iterable[Path | None] = (),
    reads: Iterable[Path | str | None] = (),
) -> None:
    """Refuse a place that cannot be written to, or where a file lies that the command reads, such as its `models`."""
    if path is None:
        return
    if path.is_dir():
        raise Failure(f"{option} {path} is a folder: name a file in it", Exit.USAGE)
    if not path.absolute().parent.is_dir():
        raise Failure(f"there is no folder {path.absolute().parent} for {option}: make it first", Exit.USAGE)
    for others, what in (
        (models, "the file of the model: give the other file"),
        (reads, "the file that is read: give"),
    ):
        if any(other is not None and _same(path, Path(other)) for other in others):
            raise Failure(f"{option} {path} is {what} another name", Exit.USAGE)


def check_model_path(path: Path | None, option: str = "--save") -> None:
    """Refuse to replace a file that is no model: it may be the only copy of the data."""
    check_output_path(path, option)
    if path is None or not path.exists() or not path.stat().st_size:
        return
    try:
        inspect_file(path)
    except (ChangedClass, NewerFormat, UnknownClass):
        return
    except CorruptFile as error:
        raise Failure(
            f"{path} is there and is not a model of ovk: give another name to {option}", Exit.USAGE
        ) from error


def check_report_path(path: Path | None, *models: Path | None) -> None:
    """Refuse a name that is not one of a page, and find out whether there is a library to draw with."""
    if path is None:
        return
    check_output_path(path, "--report", models=models)
    if path.suffix.lower() not in ("", *PAGE_ENDINGS):
        raise Failure(f"--report {path} must end in .html, since it is a page; `ovk plot` draws pictures", Exit.USAGE)
    from ovk.plotting import pyplot

    pyplot()


def _same(one: Path, other: Path) -> bool:
    """Whether two names are of one file."""
    try:
        return one.samefile(other)
    except OSError:
        return one.absolute() == other.absolute()
