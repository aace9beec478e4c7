"""Tests of the report of a table model."""

import re

import pytest

import ovk
from ovk.app.report import report

pytest.importorskip("matplotlib")


def text_of(page):
    """The text of a page, without pictures and markup."""
    return re.sub(r"\s+", " ", re.sub(r"<style>.*?</style>|<[^>]*>", " ", page.read_text(encoding="utf-8"), flags=re.S))


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "t.csv"
    rows = [f"v{i},{i % 12},{i % 7},{'' if i % 3 == 0 else i % 7},{'' if i % 6 == 0 else i % 5}" for i in range(120)]
    path.write_text("\n".join(["visit,patient,x,first,second", *rows]))
    return path


def test_text_of_the_report_of_a_table(table, tmp_path):
    model = ovk.fit_file(table, ["first", "second"], ignore=["visit", "patient"])
    text = text_of(report(model, tmp_path / "r.html"))
    # No text about streams.
    assert "As soon as there were enough errors" not in text
    assert "The width of an interval comes from the errors on held-out rows" in text
    assert "120 rows were read; 100 have a known target and were learned." in text
    assert "Column &#x27;visit&#x27; is not used: ignored as requested." in text
    assert "Errors and intervals apply to new rows from the same units" in text
    for name in ("horizon", "lags", "classify", "warm_up"):
        assert not re.search(rf"\b{name}\b", text)
    # With two outputs, there is one correlation.
    assert "The correlation of first and second is" in text
    assert "Graph of the outputs" not in (tmp_path / "r.html").read_text(encoding="utf-8")
    assert "first (output)" in text


def test_lags_are_among_the_settings(table, tmp_path):
    model = ovk.fit_file(table, "first", lags=[1], ignore=["visit", "patient"])
    text = text_of(report(model, tmp_path / "r.html"))
    assert re.search(r"\bhorizon 24\b", text)
    assert "computed only from the errors of earlier rows" in text


def test_the_report_explains_groups(table, tmp_path):
    model = ovk.fit_file(table, ["first", "second"], ignore="visit", groups="patient")
    text = text_of(report(model, tmp_path / "r.html"))
    assert "Errors and intervals apply to unseen groups of &#x27;patient&#x27;." in text
    assert "each group&#x27;s intervals were computed only from the errors of the other groups" in text
    assert "the 10 groups of &#x27;patient&#x27;, a fifth of them at a time" in text


def test_conclusion_of_a_model_that_explains_nothing(table, tmp_path):
    model = ovk.fit_file(table, "first", ignore=["visit", "patient"])
    # Number of rows, sum of squared errors, sum of absolute errors.
    model.scores[0].sums.total = model.scores[1].sums.total * [1.0, 1.2, 1.0]
    text = text_of(report(model, tmp_path / "r.html"))
    assert "no better than the mean" in text
    assert "-20%" not in text
