"""Is a built page wider than its window? A headless browser measures: ``python docs/widths.py docs/_build/html``."""

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
const found = [...document.querySelectorAll('iframe')].map(f => f.contentDocument.documentElement.scrollWidth);
document.body.innerHTML = '<pre id="found">' + JSON.stringify(found) + '</pre>' })</script>"""


def widths(pages: list[Path], window: int) -> list[int]:
    """How wide each page is in a window of that many pixels."""
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
    measured: list[int] = json.loads(unescape(found[1]))
    return measured


def measured_pages(directory: Path) -> list[Path]:
    """Pages to measure: all but those that are made alike, of which a few stand for the others."""
    pages = [page for page in sorted(directory.rglob("*.html")) if not {"_static", "_modules"} & set(page.parts)]
    alike = [page for page in pages if page.parent.parent.name == "generated" or page.parent.name == "decisions"]
    return [page for page in pages if page not in alike] + alike[::25]


def too_wide(directory: Path) -> list[str]:
    """Pages of a directory that are wider than a window, with both numbers."""
    pages = measured_pages(directory)
    found = []
    for window in WINDOWS:
        for start in range(0, len(pages), FRAMES):
            part = pages[start : start + FRAMES]
            for page, width in zip(part, widths(part, window), strict=True):
                if width > window:
                    found.append(f"{page.relative_to(directory)}: {width} pixels in a window of {window}")
    return found


if __name__ == "__main__":
    if BROWSER is None:
        print("no browser: widths of pages are not measured")
    elif wide := too_wide(Path(sys.argv[1]).resolve()):
        sys.exit("\n".join(["pages that are wider than their window:", *wide]))
