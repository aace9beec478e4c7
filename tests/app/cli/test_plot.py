"""Tests of `ovk plot`, and of the relevance of inputs in reports."""

import numpy as np
import pytest

from household import series
from ovk import OKVAR, OLOK, FunctionalRidge, FunctionalRidgeCV, OVKRidgeCV, load, save
from ovk.app.sessions import Settings, learn, relevance
from ovk.app.tables import open_records
from ovk.curves import ProductGrid


@pytest.fixture(scope="module")
def learned(tmp_path_factory):
    """A session in which x and the last output are relevant, and another number is not."""
    directory = tmp_path_factory.mktemp("learned")
    rng = np.random.default_rng(0)
    x, noise = rng.standard_normal((2, 400))
    lines = [f"{x[i]:.3f},{noise[i]:.3f},{3 * x[i] + 0.1 * noise[i - 1]:.3f}" for i in range(400)]
    path = directory / "t.csv"
    path.write_text("\n".join(["a very long name of an input that no axis has room for,nothing,y", *lines]))
    with open_records(path) as records:
        learn(records, Settings(["y"], warm_up=100), save_to=directory / "m.ovk")
    return directory / "m.ovk"


def test_relevance_finds_the_relevant_inputs(learned):
    session = load(learned)
    found = relevance(session.predictor(), session.inputs)
    assert list(found) == ["a very long name of an input that no axis has room for", "nothing"]
    first, last = found.values()
    # Permuting the only input of y = 3 x changes predictions by sqrt(2) standard deviations.
    assert first == pytest.approx(np.sqrt(2), rel=0.15)
    assert last < 0.1 * first
    assert relevance(session.predictor(), None) == {}


def test_pictures_and_pages(ovk, learned, tmp_path):
    for name in ("p.png", "p.svg", "p.html"):
        code, out, _ = ovk("plot", learned, "--out", tmp_path / name)
        kind = "report" if name.endswith(".html") else "picture"
        assert (code, out) == (0, f"{kind}: {tmp_path / name}\n")
    assert (tmp_path / "p.png").read_bytes().startswith(b"\x89PNG")
    page = (tmp_path / "p.html").read_text(encoding="utf-8")
    assert "the best baseline" in page
    assert "Relevance of the inputs" in page
    assert "prefers-color-scheme: dark" in page


@pytest.mark.long
def test_pictures_of_table_models_and_estimators(ovk, tmp_path):
    path, model = series(tmp_path / "t.csv", 150, missing=0.0), tmp_path / "m.ovk"
    assert ovk("fit", path, "--targets", "a,b", "--features", "x", "--lags", 1, "--save", model)[0] == 0
    assert ovk("plot", model, "--out", tmp_path / "p.html")[0] == 0
    assert "of the variance" in (tmp_path / "p.html").read_text(encoding="utf-8")
    X = np.random.default_rng(0).standard_normal((30, 2))
    curves = np.sin(X[:, :1] + np.linspace(0, 3, 12))
    every = [OVKRidgeCV().fit(X, X), OKVAR().fit(X), FunctionalRidge().fit(X, curves)]
    every += [FunctionalRidgeCV().fit(X, curves), FunctionalRidgeCV().fit(X, X[:, 0])]
    every += [FunctionalRidgeCV(grid=ProductGrid.regular((3, 4))).fit(X, curves)]
    for estimator in every:
        save(estimator, tmp_path / "e.ovk")
        assert ovk("plot", tmp_path / "e.ovk", "--out", tmp_path / "e.png")[0] == 0


def test_models_without_a_picture(ovk, learned, tmp_path):
    save(OLOK(), tmp_path / "o.ovk")
    code, _, err = ovk("plot", tmp_path / "o.ovk", "--out", tmp_path / "o.png")
    assert code == 4
    assert "does not support OLOK" in err
    assert ovk("plot", learned, "--out", tmp_path / "p.docx")[0] == 2
    assert ovk("plot", tmp_path / "nothing.ovk")[0] == 4


@pytest.mark.long
def test_the_page_of_a_stream_with_dates(ovk, tmp_path):
    """A column of dates is one row of the table of data, and the title names the model file."""
    path, model, page = series(tmp_path / "t.csv", 300), tmp_path / "m.ovk", tmp_path / "p.html"
    asked = ["--targets", "a,b", "--time", "Date,Time", "--warm-up", 100, "--save", model]
    assert ovk("stream", path, *asked)[0] == 0
    assert ovk("plot", model, "--out", page)[0] == 0
    text = page.read_text(encoding="utf-8")
    assert "Results of m.ovk" in text
    assert "300 rows read" in text
    assert "sin 1 of day" not in text
    assert "<td>Date and Time (date)</td>" in text
    assert "in 90% interval</th>" in text


def test_the_page_of_a_table_of_classes(ovk, tmp_path):
    path, page = tmp_path / "t.csv", tmp_path / "p.html"
    path.write_text("x,y\n" + "".join(f"{i % 9},{'low' if i % 9 < 5 else 'high'}\n" for i in range(90)))
    asked = ["--targets", "y", "--classify", "--save", tmp_path / "m.ovk", "--report", page]
    assert ovk("fit", path, *asked, "--kernel", "gaussian")[0] == 0
    text = page.read_text(encoding="utf-8")
    assert "balanced accuracy" in text
    for head in ("rows", "share", "recall"):
        assert f"{head}</th>" in text
