"""Pictures on pages: it is known how each is drawn, and its words can be read there."""

import re
import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"


@pytest.fixture
def pictures(monkeypatch):
    pytest.importorskip("matplotlib")
    monkeypatch.setenv("MPLBACKEND", "Agg")
    monkeypatch.syspath_prepend(str(DOCS))
    return runpy.run_path(str(DOCS / "pictures.py"))


def test_it_is_known_where_every_picture_comes_from(pictures):
    drawn, elsewhere = pictures["PICTURES"], pictures["ELSEWHERE"]
    assert {path.stem for path in pictures["IMAGES"].glob("*.png")} <= {*drawn, *elsewhere}
    assert not {*drawn} & {*elsewhere}
    assert all((ROOT / path).exists() for path, _ in drawn.values())
    assert all((pictures["IMAGES"] / f"{name}.png").exists() for name in drawn)


def test_every_picture_is_on_a_page(pictures):
    text = "".join(path.read_text(encoding="utf-8") for path in [ROOT / "README.md", *DOCS.rglob("*.md")])
    shown = set(re.findall(r"images/([\w-]+)\.png", text))
    assert {path.stem for path in pictures["IMAGES"].glob("*.png")} <= shown


def test_words_in_the_first_picture_can_be_read(pictures):
    assert pictures["smallest_words"](pictures["figure"]("coupling")) >= pictures["SMALLEST"]


def test_a_picture_of_small_words_is_refused(pictures, monkeypatch, tmp_path):
    from matplotlib import pyplot as plt

    drawn, ax = plt.subplots(figsize=(20, 4))
    ax.set_title("too small")
    draw = pictures["draw"]
    monkeypatch.setitem(draw.__globals__, "figure", lambda name: drawn)
    monkeypatch.setitem(draw.__globals__, "IMAGES", tmp_path)
    with pytest.raises(ValueError, match=r"wide: the smallest words are 4\.9 pixels"):
        draw("wide")
    assert not list(tmp_path.iterdir())
    plt.close("all")
