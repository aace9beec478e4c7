"""Pages that need no network: the build stops where one would fetch something from another site."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

#: What a browser fetches without being asked: scripts, pictures, frames; styles and their fonts. Links it only shows.
_FETCHED = re.compile(
    r"""<(?:script|img|iframe|source|video|audio|embed)\b[^>]*?\bsrc=["']?((?:https?:)?//[^"'\s>]+)"""
    r"""|<link\b(?=[^>]*\brel=["']?(?:stylesheet|preload|icon|preconnect|dns-prefetch))[^>]*?\bhref=["']?((?:https?:)?//[^"'\s>]+)"""
    r"""|(?:url\(|@import)\s*["']?((?:https?:)?//[^"'\s)]+)""",
    flags=re.IGNORECASE,
)


def fetched(text: str) -> list[str]:
    """Addresses of other sites that a browser would ask for.

    >>> fetched('<a href="https://a.org">a</a> <script defer src="https://b.org/x.js"></script>')
    ['https://b.org/x.js']
    """
    return [next(filter(None, match.groups())) for match in _FETCHED.finditer(text)]


def check(app: Any, error: Exception | None) -> None:
    """What Sphinx calls when it is done."""
    if error is not None or app.builder.format != "html":
        return
    # Pages of an earlier build may still lie beside those of this one.
    pages = [Path(app.builder.get_outfilename(name)) for name in app.env.found_docs]
    pages += Path(app.outdir, "_static").rglob("*.css")
    found = {
        address: path.relative_to(app.outdir)
        for path in pages
        for address in fetched(path.read_text(encoding="utf-8", errors="replace"))
    }
    if found:
        from sphinx.errors import SphinxError

        raise SphinxError("; ".join(f"{page} asks for {address}" for address, page in found.items()))


def setup(app: Any) -> dict[str, bool]:
    """Check what was built."""
    app.connect("build-finished", check)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
