"""The page of the architecture tells the walks as they are, and the picture the layers."""

import runpy
from pathlib import Path

from walks import END, PAGE, START, WALKS, as_table, walks

DOCS = Path(__file__).parents[1] / "docs"


def test_the_walks_on_the_page_are_those_that_are_walked():
    found = walks()
    told = PAGE.read_text(encoding="utf-8").split(START)[1].split(END)[0]
    assert _unordered(told) == _unordered(as_table(found)), "run  python tests/walks.py"
    for name, files in found.items():
        assert len(files) <= WALKS[name][1], name


def _unordered(table):
    """The files of each walk: the order of those that several threads enter depends on the threads."""
    return [sorted(line.split("`")) for line in table.splitlines()]


def test_the_picture_shows_the_layers():
    packages = runpy.run_path(str(DOCS / "packages.py"))
    assert packages["PICTURE"].read_text(encoding="utf-8") == packages["picture"](), "run  python docs/packages.py"
