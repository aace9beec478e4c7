"""The gallery's examples of fields and colours run, and show what they say."""

import re
import runpy
from pathlib import Path

import pytest

GALLERY = Path(__file__).parent.parent / "examples" / "gallery"
if not GALLERY.exists():
    pytest.skip("the gallery is not part of this installation", allow_module_level=True)
plt = pytest.importorskip("matplotlib.pyplot")


@pytest.fixture
def run(monkeypatch, capsys):
    monkeypatch.setattr(plt, "show", lambda: None)

    def call(name):
        runpy.run_path(str(GALLERY / name))
        plt.close("all")
        return [float(number) for number in re.findall(r"\d\.\d+", capsys.readouterr().out)]

    return call


def test_colours_are_found_from_few_pixels(run):
    pytest.importorskip("PIL")
    error, grey = run("plot_colorization.py")
    assert error < 0.5 * grey


def test_mismatches_of_the_example_are_found(run):
    precision, recall = run("plot_vector_field.py")
    assert precision > 0.95
    assert recall > 0.95
