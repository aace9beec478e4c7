"""The gallery examples show what their text states."""

import re
import runpy
from pathlib import Path

import pytest

pytestmark = pytest.mark.long

GALLERY = Path(__file__).parent.parent / "examples"
if not GALLERY.exists():
    pytest.skip("the gallery is not part of this installation", allow_module_level=True)
plt = pytest.importorskip("matplotlib.pyplot")


@pytest.fixture
def run(monkeypatch, capsys):
    monkeypatch.setattr(plt, "show", lambda: None)

    def call(name, pattern=r"\d+\.\d+"):
        runpy.run_path(str(next(GALLERY.rglob(name))))
        plt.close("all")
        return [float(number) for number in re.findall(pattern, capsys.readouterr().out)]

    return call


def test_colours_are_found_from_few_pixels(run):
    pytest.importorskip("PIL")
    alone, with_graph, grey = run("plot_colorization.py")
    assert with_graph < alone < 0.5 * grey


def test_outliers_of_the_example_are_found(run):
    precision, recall = run("plot_vector_field.py")
    assert precision > 0.95
    assert recall > 0.95


def test_the_flow_of_the_example_is_predicted(run):
    error, left_out = run("plot_flow.py")
    assert error < 10
    assert 0.5 * error < left_out < 2 * error


def test_a_stream_of_fields_is_learned(run):
    steps, weighed, ridge = run("plot_operator_stream.py")
    assert ridge < 6
    assert max(steps, weighed) < 20


def test_learned_structure_fills_in_what_was_not_seen(run):
    apart, learned, tuned = run("plot_which_outputs_go_together.py", r"error (\d\.\d+)")
    assert learned < 0.85 * apart
    assert tuned < 0.85 * apart


def test_sites_are_put_on_their_side_of_the_border(run):
    (share,) = run("plot_networks_of_sites.py", r"border: (\d+)%")
    assert share >= 90
