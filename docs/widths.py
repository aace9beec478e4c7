"""Is a built page, or a box on it, wider than its room? A browser measures: ``python docs/widths.py docs/_build/html``.

A box that scrolls or hides what does not fit cuts it off as a window does. Tables, code and formulas may scroll.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import tempfile
from html import unescape
from pathlib import Path

#: Pixels of a laptop and of a phone.
WINDOWS = (1280, 390)
BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome", "chrome"))), None)
#: Frames side by side in one visit of the browser.
FRAMES = 25
_SCRIPT = """<script>addEventListener('load', () => {
const mayScroll = 'table, pre, math, .formula, .ellipsis, .pst-scrollable-table-container, .table-responsive';
const named = box => `${box.tagName.toLowerCase()}.${box.className}`;
const found = [...document.querySelectorAll('iframe')].map(frame => {
  const page = frame.contentDocument, look = frame.contentWindow;
  const cut = [...page.querySelectorAll('body *')].filter(box => box.scrollWidth > box.clientWidth + 1
    && box.clientWidth > 1 && !box.closest(mayScroll) && look.getComputedStyle(box).overflowX != 'visible'
    && look.getComputedStyle(box).visibility == 'visible');
  const widest = box => [...box.querySelectorAll('*')].filter(one => !one.parentElement.closest(mayScroll))
    .reduce((a, b) => a.getBoundingClientRect().right < b.getBoundingClientRect().right ? b : a, box);
  return [page.documentElement.scrollWidth, cut.map(box => `${named(box)}: ${box.scrollWidth} pixels in `
    + `${box.clientWidth}, because of ${named(widest(box))} ${widest(box).textContent.slice(0, 40)}`)] });
document.body.innerHTML = '<pre id="found">' + JSON.stringify(found).replaceAll('<', '&lt;') + '</pre>' })</script>"""


def widths(pages: list[Path], window: int) -> list[tuple[int, list[str]]]:
    """How wide each page is in a window of that many pixels, and its boxes that cut something off."""
    if BROWSER is None:
        raise FileNotFoundError("no browser: install chromium")
    frames = "".join(
        f'<iframe src="{page.as_uri()}" width="{window}" height="800" frameborder="0"></iframe>' for page in pages
    )
    with tempfile.TemporaryDirectory() as directory:
        sheet = Path(directory) / "sheet.html"
        sheet.write_text(f"<!doctype html><body>{frames}{_SCRIPT}</body>", encoding="utf-8")
        options = [
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--no-first-run",
            "--allow-file-access-from-files",
        ]
        command = [BROWSER, *options, f"--user-data-dir={directory}/profile", "--dump-dom", sheet.as_uri()]
        shown = subprocess.run(command, capture_output=True, text=True, timeout=180, check=True).stdout
    found = re.search(r'<pre id="found">(.*?)</pre>', shown, flags=re.DOTALL)
    if found is None:
        raise RuntimeError(f"the browser measured nothing: {shown[:300]!r}")
    return [(width, cut) for width, cut in json.loads(unescape(found[1]))]


def measured_pages(directory: Path) -> list[Path]:
    """Pages to measure: all but those that are made alike, of which a few stand for the others."""
    pages = [page for page in sorted(directory.rglob("*.html")) if not {"_static", "_modules"} & set(page.parts)]
    alike = [page for page in pages if page.parent.parent.name == "generated" or page.parent.name == "decisions"]
    return [page for page in pages if page not in alike] + alike[::25]


def too_wide(directory: Path) -> list[str]:
    """Pages of a directory that are wider than a window, or have a box that cuts something off, with both numbers."""
    pages = measured_pages(directory)
    found = []
    for window in WINDOWS:
        for start in range(0, len(pages), FRAMES):
            part = pages[start : start + FRAMES]
            for page, (width, cut) in zip(part, widths(part, window), strict=True):
                wide = [f"{width} pixels"] if width > window else cut
                found += [f"{page.relative_to(directory)}: {one} in a window of {window}" for one in wide]
    return found


if __name__ == "__main__":
    if BROWSER is None:
        print("no browser: widths of pages are not measured")
    elif wide := too_wide(Path(sys.argv[1]).resolve()):
        sys.exit("\n".join(["pages that are wider than their window, or have a box wider than its room:", *wide]))
