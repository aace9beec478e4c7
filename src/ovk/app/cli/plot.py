"""``ovk plot``: plot a model."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ovk.app.cli.options import REPORT_SUFFIXES, check_output_path
from ovk.app.cli.output import CommandError, Exit, exit_code_on_error, show
from ovk.persistence import load


def command(
    model: Annotated[Path, typer.Argument(help="A model file.")],
    save: Annotated[
        Path | None,
        typer.Option("--out", help="File to write: .png, .svg, .pdf or .html. [default: the model's name with .png]"),
    ] = None,
) -> None:
    """Plot a model, or write its report (.html).

    For models saved by `ovk stream` and `ovk fit`: predictions and outcomes, errors over time, coverage of the
    intervals, and relevance of the inputs. For OVKRidgeCV the errors of its candidates, for functional models
    leave-one-out predictions of some curves, for MovKL its kernel weights, for OKVAR its series.
    """
    from ovk.app.report import model_display, report
    from ovk.plotting import check_figure_path, save_figure

    path = save or Path(model.with_suffix(".png").name)
    check_output_path(path, models=[model])
    page = path.suffix.lower() in REPORT_SUFFIXES
    if not page:
        try:
            check_figure_path(path)
        except ValueError as error:
            raise CommandError(f"{error}; or .html for a report") from error
    with exit_code_on_error(Exit.MODEL):
        learned = load(model)
        if page:
            report(learned, path, title=f"Results of {model.name}")
        else:
            save_figure(model_display(learned), path)
    show(f"{'report' if page else 'picture'}: {path}")
