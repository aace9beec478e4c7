"""Docstrings are plain text with formulas; this makes reStructuredText of them that shows the same.

`|f|`, `x*` and `alpha_` mean what they say in a docstring, but are markup to Sphinx: they are escaped, outside of
examples and of what stands between backticks. A block that is indented behind a blank line is a formula or a table: it
is shown as it stands.
"""

from __future__ import annotations

import re
from itertools import takewhile
from typing import Any

_SPECIAL = re.compile(r"([*|\\])|(?<=\w)_(?=\W|$)")
_CODE = re.compile(r"(``.+?``|`.+?`|:\w+:`.+?`)")


def escaped(line: str) -> str:
    """A line of prose without markup but for what stands between backticks.

    >>> escaped("|f|^2 of `kernel_` and alpha_")
    '\\\\|f\\\\|^2 of `kernel_` and alpha\\\\_'
    """
    parts = _CODE.split(line)
    return "".join(part if k % 2 else _SPECIAL.sub(r"\\\g<0>", part) for k, part in enumerate(parts))


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def converted(lines: list[str]) -> list[str]:
    """All lines of a docstring."""
    result: list[str] = []
    verbatim: int | None = None  # indentation of a block that is shown as it stands
    example = False
    directive: int | None = None
    before = ""  # the last line that was not blank
    for number, line in enumerate(lines):
        blank = not line.strip()
        if blank:
            example = False
            result.append(line)
            continue
        if verbatim is not None and _indent(line) < verbatim:
            verbatim = None
        if directive is not None and _indent(line) <= directive:
            directive = None
        if line.lstrip().startswith(".. "):
            directive = _indent(line)
        if line.lstrip().startswith(">>>"):
            example = True
        opens = number > 0 and not lines[number - 1].strip() and before and _indent(line) > _indent(before)
        if opens and verbatim is None and directive is None and not example and not set(before.strip()) <= {"-"}:
            verbatim = _indent(line)
            result += [" " * _indent(before) + "::", ""]
        before = line
        keep = verbatim is not None or example or directive is not None or set(line.strip()) <= {"-"}
        result.append(line if keep else escaped(line))
    return result


def described(lines: list[str]) -> list[str]:
    """Entries of parameters and attributes whose whole text stands behind the colon, with that text as description.

    Sphinx takes what stands behind the colon for a type. In ``X_fit_ : (n, p) the points x_i`` it is all there is.

    >>> described(["Attributes", "----------", "X_fit_ : (n, p) the points", "alpha : float", "    Weight."])
    ['Attributes', '----------', 'X_fit_', '    (n, p) the points', 'alpha : float', '    Weight.']
    >>> described(["Attributes", "----------", "and those of `OVKRidge`"])[2:]
    ['others', '    those of `OVKRidge`']
    """
    result: list[str] = []
    inside = ""
    for number, line in enumerate(lines):
        after = lines[number + 1] if number + 1 < len(lines) else ""
        if set(after.strip()) == {"-"}:
            inside = line.strip() if line.strip() in ("Parameters", "Attributes") else ""
        if inside == "Attributes" and line.startswith("and those of "):
            line = line.replace("and those of ", "others : those of ")
        name, colon, text = line.partition(" : ")
        entry = inside and colon and _indent(line) == 0 and bool(text.strip())
        if entry and inside == "Attributes" and ", " in name:
            # Several of them share a text, which Sphinx knows of parameters only.
            *others, name = name.split(", ")
            more = list(takewhile(lambda one: one.startswith("    "), lines[number + 1 :]))
            for other in others:
                result += [other, f"    {text}", *more]
            line = f"{name} : {text}"
        # An indented line that begins in the middle of a sentence goes on with what stands behind the colon.
        goes_on = after.startswith("    ") and (after.strip()[:1].islower() or text.rstrip().endswith((",", ";")))
        if entry and (not after.startswith("    ") or goes_on):
            result += [name, f"    {text}"]
        else:
            result.append(line)
    return result


def as_restructured_text(app: object, what: str, name: str, thing: object, options: object, lines: list[str]) -> None:
    """What Sphinx calls for every docstring."""
    lines[:] = converted(lines)


def with_descriptions(app: object, what: str, name: str, thing: object, options: object, lines: list[str]) -> None:
    """What Sphinx calls for every docstring, before napoleon reads its sections."""
    lines[:] = described(lines)


def briefly(app: object, what: str, name: str, thing: object, options: object, lines: list[str]) -> None:
    """What Sphinx calls for every docstring: of those of other packages the first line stays, without links.

    >>> lines = ["Return :ref:`accuracy <score>`.", "", "See :ref:`there`."]
    >>> briefly(None, "method", "ClassifierMixin.score", sum, None, lines)
    >>> lines
    ['Return accuracy.', '']
    """
    if not (getattr(thing, "__module__", None) or "").startswith(("ovk", "reproduce")) and "" in lines:
        del lines[lines.index("") + 1 :]
        lines[0] = re.sub(r":\w+:`([^`<]+?)\s*(<[^`]*>)?`", r"\1", lines[0])


def is_name_of_class(words: str) -> bool:
    """Whether words of a parameter's type name a class: the m of "(m, p)" and "number" do not.

    >>> [is_name_of_class(words) for words in ("Grid", "ovk.curves.Grid", "m", "number", "X")]
    [True, True, False, False, False]
    """
    last = words.rpartition(".")[2]
    return len(last) > 1 and last[0].isupper()


def without_false_links(app: object, doctree: Any) -> None:
    """What Sphinx calls for every page: attributes are called so, and types are links only where they name a class."""
    from docutils import nodes
    from sphinx.addnodes import pending_xref

    for label in doctree.findall(nodes.field_name):
        if label.astext() == "Variables":
            label.children[:] = [nodes.Text("Attributes")]
    for field in doctree.findall(nodes.field):
        for link in list(field.findall(pending_xref)):
            if link.get("refdomain") == "py" and not is_name_of_class(link.get("reftarget", "")):
                link.replace_self(link.children)
