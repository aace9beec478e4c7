"""Options that several commands share, options of the settings, and checks of output paths."""

from __future__ import annotations

import csv
import inspect
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import MISSING, Field
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer

from ovk.app.cli.output import CommandError, Exit, exit_code_on_error
from ovk.app.sessions import Settings, declared, option_of
from ovk.app.tables import FORMATS as SUFFIXES
from ovk.base import check_level
from ovk.persistence import ChangedClassError, CorruptFileError, NewerFormatError, UnknownClassError
from ovk.persistence import inspect as inspect_file

#: Formats of input files.
FORMATS = tuple(dict.fromkeys(SUFFIXES.values()))

File = Annotated[
    str, typer.Argument(help="CSV, JSON lines or Parquet (.gz, .xz, .bz2, .zst too); - is standard input.")
]
Source = Annotated[
    str, typer.Argument(help=f"{File.__metadata__[0].help} Or nats://host:4222/STREAM, kafka://host:9092/TOPIC.")
]
Report = Annotated[Path | None, typer.Option(help="Write a report (HTML) to this file.")]


def _format(form: str) -> str | None:
    if form and form not in FORMATS:
        raise CommandError(f"--format must be one of {', '.join(FORMATS)}, got {form!r}")
    return form or None


Format = Annotated[
    str,
    typer.Option(
        "--format", callback=_format, help=f"{', '.join(FORMATS)}. [default: detected from the name or the first bytes]"
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print machine-readable JSON.")]
Out = Annotated[
    Path | None,
    typer.Option("--out", help="Write to this file instead of standard output; Parquet if it ends in .parquet."),
]
WarnBad = Annotated[
    float, typer.Option(help="Warn if more than this share of the rows has unreadable cells.", min=0, max=1)
]


def _level(level: float | None) -> float | None:
    if level is not None:
        with exit_code_on_error(Exit.USAGE):
            check_level(level, "--level")
    return level


LevelOfModel = Annotated[
    float | None,
    typer.Option(
        "--level",
        callback=_level,
        help="Nominal coverage of the intervals. [default: the model's level, usually 0.9]",
    ),
]


def takes_settings(cls: type, name: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give the command of that name an option for each setting that a class such as `Settings` declares.

    The options replace its parameter `settings`. A parameter `given` receives the names of the parameters that were
    given on the command line.
    """

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        options, types = declared(cls, name), get_type_hints(cls)
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
        declared_options = [setting_option(field, types[field.name], name) for field in options]
        for one in own.values():
            every += declared_options if one.name == "settings" else [one]
        every = [one.replace(kind=inspect.Parameter.KEYWORD_ONLY) for one in every if one.name != "given"]
        run.__signature__ = inspect.Signature(every)  # type: ignore[attr-defined]
        run.__annotations__ = {one.name: one.annotation for one in every}
        run.__doc__ = command.__doc__
        return run

    return decorate


#: Placeholder in help texts for names separated by commas.
NAMES = "<names>"


def setting_option(setting: Field[Any], kind: Any, command: str) -> inspect.Parameter:
    """The option of a setting of that type; a list is given as texts separated by commas."""
    help, low, high = (setting.metadata[name] for name in ("help", "low", "high"))
    default, metavar = setting.default, None
    if str(setting.type).startswith("Sequence"):
        kind, metavar = list[str] | None, "<numbers>" if setting.type == "Sequence[int]" else NAMES
    if default is MISSING:
        default = inspect.Parameter.empty if command == "fit" else None
    elif default == ():
        default = None
    text = help[command] if isinstance(help, dict) else help
    option = typer.Option(option_of(setting), help=text, min=low, max=high, metavar=metavar)
    return inspect.Parameter(
        setting.name, inspect.Parameter.POSITIONAL_OR_KEYWORD, default=default, annotation=Annotated[kind, option]
    )


def _parsed(setting: Field[Any], value: Any) -> Any:
    """The value of a setting that corresponds to an option."""
    if not str(setting.type).startswith("Sequence"):
        return (value.strip() or None) if setting.default is None and isinstance(value, str) else value
    if value is None:
        return None if setting.default is None else ()
    names = split_names(value)
    if setting.type != "Sequence[int]":
        return names
    if not all(name.isdecimal() and int(name) > 0 for name in names):
        message = f"{option_of(setting)} must be positive integers separated by commas, got {','.join(value)!r}"
        raise CommandError(message)
    return [int(name) for name in names]


def split_names(texts: list[str] | None) -> list[str]:
    """Names separated by commas; a name that contains a comma is in double quotes.

    >>> split_names(['a, b,"c,d"', "e"])
    ['a', 'b', 'c,d', 'e']
    """
    rows = csv.reader(texts or [], skipinitialspace=True)
    return [name.strip() for row in rows for name in row if name.strip()]


# Output paths are checked before anything is learned: a late error would cost hours, or destroy input files.

#: Suffixes of a report.
REPORT_SUFFIXES = (".html", ".htm")


def check_output_path(
    path: Path | None,
    option: str = "--out",
    *,
    models: Iterable[Path | None] = (),
    reads: Iterable[Path | str | None] = (),
) -> None:
    """Reject a path that cannot be written to, or that is one of the files that the command reads."""
    if path is None:
        return
    if path.is_dir():
        raise CommandError(f"{option}: {path} is a directory, not a file")
    if not path.absolute().parent.is_dir():
        raise CommandError(f"{option}: the directory {path.absolute().parent} does not exist")
    for others, what in ((models, "model"), (reads, "input")):
        if any(other is not None and _same(path, Path(other)) for other in others):
            raise CommandError(f"{option}: {path} is the {what} file; choose another name")


def check_model_path(path: Path | None) -> None:
    """Reject an existing file that is not a model: it may be the only copy of the data."""
    check_output_path(path, "--save")
    if path is None or not path.exists() or not path.stat().st_size:
        return
    try:
        with suppress(ChangedClassError, NewerFormatError, UnknownClassError):
            inspect_file(path)
    except CorruptFileError as error:
        raise CommandError(f"--save: {path} exists and is not an ovk model; choose another name") from error


def check_report_path(path: Path | None, *models: Path | None) -> None:
    """Reject a path that is not one of an HTML file; raise an error if matplotlib is missing."""
    if path is None:
        return
    check_output_path(path, "--report", models=models)
    if path.suffix.lower() not in ("", *REPORT_SUFFIXES):
        raise CommandError(f"--report: {path} must end in .html; use `ovk plot` for figures")
    from ovk.plotting import pyplot

    pyplot()


def _same(one: Path, other: Path) -> bool:
    try:
        return one.samefile(other)
    except OSError:
        return one.absolute() == other.absolute()
