"""The page of the architecture tells the walks as they are, and the picture the layers."""

import re
import runpy
from pathlib import Path

from walks import END, PAGE, START, walks

DOCS = Path(__file__).parents[1] / "docs"
#: Files in each walk, at most.
MOST = (18, 21, 28, 16)


def test_the_walks_on_the_page_are_those_that_are_walked():
    told = PAGE.read_text(encoding="utf-8").split(START)[1].split(END)[0]
    assert told == walks(), "run  python tests/walks.py"
    lengths = [int(number) for number in re.findall(r"\*\*(\d+)\*\*", told)]
    assert all(length <= most for length, most in zip(lengths, MOST, strict=True))


def test_the_picture_shows_the_layers():
    packages = runpy.run_path(str(DOCS / "packages.py"))
    assert packages["PICTURE"].read_text(encoding="utf-8") == packages["picture"](), "run  python docs/packages.py"
