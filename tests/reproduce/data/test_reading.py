"""Parsers against texts written here, and against a plain reading of the real ones."""

from __future__ import annotations

import numpy as np
import pytest
from reproduce.data._catalogue import CATALOGUE, names_in
from reproduce.data._home import read_files
from reproduce.data._reading import read_relation, read_table
from reproduce.data.mtr import read_arff

from reproduce.data import load_mtr


def test_table_with_quoted_names_and_windows_lines():
    names, table = read_table(b'"a b";"c#"\r\n1;2e-005\r\n-3;nan\r\n', ";")
    assert names == ["a b", "c#"]
    np.testing.assert_array_equal(table, [[1, 2e-5], [-3, np.nan]])


def test_relation_with_blanks_everywhere():
    rows, columns, values = read_relation(b"r1,r2,r3\na,b, c,d,e\n,,,\n1,,,2\n,,3,\n")
    assert rows == ["r1", "r2", "r3"]
    assert columns == ["a", "b, c", "d", "e"]
    np.testing.assert_array_equal(values, [[0, 0, 0, 0], [1, 0, 0, 2], [0, 0, 3, 0]])


def test_arff_nominal_missing_comments_and_quotes():
    text = (
        b"% comment\n@RELATION 'some thing'\n@ATTRIBUTE \"'x'l1\" NUMERIC\n@attribute two {no,yes}\n"
        b"@attribute three {a, b, c}\n@attribute y real\n\n@DATA\n% another\n"
        b"1, yes, c, 0.5\n?, ?, ?, ?\n2, no, a, 1\n"
    )
    names, table = read_arff(text)
    assert names == ["xl1", "two=yes", "three=a", "three=b", "three=c", "y"]
    expected = [[1, 1, 0, 0, 1, 0.5], [np.nan] * 6, [2, 0, 1, 0, 0, 1]]
    np.testing.assert_array_equal(table, expected)


@pytest.mark.parametrize("name", [name for name in names_in("mtr") if name != "sf1"])
def test_numeric_mtr_agrees_with_a_plain_reading(load, name):
    bunch = load(load_mtr, name)
    (content,) = read_files(CATALOGUE[f"mtr/{name}"], None)
    lines = content.decode().splitlines()
    start = next(i for i, line in enumerate(lines) if line.lower().startswith("@data"))
    expected = [[float(value) for value in line.split(",")] for line in lines[start + 1 :] if line.strip()]
    np.testing.assert_array_equal(np.hstack([bunch.data, bunch.target]), expected)


def test_mtr_nominal_inputs(load):
    flares = load(load_mtr, "sf1")
    assert flares.feature_names[:2] == ["mod_zurich_class=A", "mod_zurich_class=B"]
    assert "activity=2" in flares.feature_names
    assert "activity=1" not in flares.feature_names
    assert flares.target_names == ["c-class", "m-class", "x-class"]
    classes = flares.data[:, [name.startswith("mod_zurich") for name in flares.feature_names]]
    np.testing.assert_array_equal(classes.sum(axis=1), 1)
    assert classes[0].argmax() == 2  # the first row says C


def test_mtr_names_lose_their_quotes(load):
    tickets = load(load_mtr, "atp1d")
    assert tickets.feature_names[0] == "departwb"
    assert tickets.target_names[0] == "LBL+ALLminpA+fut_001"
    assert not any("'" in name or '"' in name for name in tickets.feature_names)
