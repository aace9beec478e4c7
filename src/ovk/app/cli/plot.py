"""``ovk plot``: what there is to see of a model."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ovk.app.cli.options import PAGE_ENDINGS, check_output_path
from ovk.app.cli.output import Exit, Failure, exit_code_on_error, show
from ovk.persistence import load


def command(
    model: Annotated[Path, typer.Argument(help="A model file.")],
    save: Annotated[
        Path | None,
        typer.Option("--out", help="File to write: .png, .svg, .pdf or .html. [default: the model's name with .png]"),
    ] = None,
) -> None:
    """Draw what a model has learned, as a picture or a page.

    For models of `ovk stream` and `ovk fit`: predictions and outcomes, errors over time, coverage of the intervals, and
    the relevance of the inputs; a page (.html) is what --report of these commands writes. For OVKRidgeCV the errors of
    its candidates, for models of curves some of the curves that they learned, each predicted without it, for MovKL the
    weights of its kernels, for OKVAR its series.
    """
    from ovk.app.report import model_display, report
    from ovk.plotting import check_picture, save_picture

    path = save or Path(model.with_suffix(".png").name)
    check_output_path(path, models=[model])
    page = path.suffix.lower() in PAGE_ENDINGS
    if not page:
        try:
            check_picture(path)
        except ValueError as error:
            raise Failure(f"{error}; a page ends in .html", Exit.USAGE) from error
    with exit_code_on_error(Exit.MODEL):
        learned = load(model)
        if page:
            report(learned, path, title=f"What {model.name} has learned")
        else:
            save_picture(model_display(learned), path)
    show(f"{'page' if page else 'picture'}: {path}")
