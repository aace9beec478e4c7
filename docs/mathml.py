"""Formulas as MathML, which browsers draw themselves: no script, no font and no picture has to be fetched."""

from __future__ import annotations

import re
from typing import Any

from docutils import nodes
from docutils.utils.math import MathError
from docutils.utils.math.latex2mathml import tex2mathml


def converted(tex: str, *, block: bool = False) -> str:
    r"""A formula of LaTeX as an element of HTML.

    >>> converted(r"\alpha").split()
    ['<math', 'xmlns="http://www.w3.org/1998/Math/MathML">', '<mi>α</mi>', '</math>']
    """
    if re.search(r"frac\s*\d", tex):
        raise ValueError(
            f"the formula {tex!r} needs braces, \\frac{{1}}{{2}}: docutils takes all digits for one number"
        )
    try:
        # The bar of docutils is one that few fonts have.
        return str(tex2mathml(tex.strip(), as_block=block)).replace("ˉ", "¯")
    except (MathError, AttributeError) as error:  # the second for a line's end outside of a table
        raise ValueError(f"the formula {tex!r} cannot be converted: {error}") from error


def inline(writer: Any, node: nodes.math) -> None:
    """A formula within a line."""
    writer.body.append(converted(node.astext()))
    raise nodes.SkipNode


def display(writer: Any, node: nodes.math_block) -> None:
    """A formula on lines of its own, which scrolls by itself where it is wider than a phone."""
    writer.body.append(f'<div class="formula">{converted(node.astext(), block=True)}</div>\n')
    raise nodes.SkipNode


def setup(app: Any) -> dict[str, bool]:
    """What Sphinx calls."""
    app.add_html_math_renderer("mathml", (inline, None), (display, None))
    app.add_css_file("formula.css")
    return {"parallel_read_safe": True, "parallel_write_safe": True}
