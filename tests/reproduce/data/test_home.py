"""What a loader says when its files are absent or not what they should be. No data needed."""

from __future__ import annotations

import inspect
import json
import re
import shutil
from pathlib import Path

import pytest
from reproduce.data.__main__ import main
from reproduce.data._catalogue import CATALOGUE
from reproduce.data._home import read_files

from reproduce import data
from reproduce.data import DatasetCorrupt, DatasetNotFound, available


@pytest.fixture(params=sorted(CATALOGUE))
def name(request):
    return request.param


def test_every_loader_has_an_entry_and_every_entry_a_loader(loaders):
    public = {loader.removeprefix("load_") for loader in data.__all__ if loader.startswith("load_")}
    # The competition's files are given to those who register: `load_bci` reads a path, not the data directory.
    assert public - {"bci"} == {name.split("/")[0] for name in CATALOGUE}
    assert set(loaders) == set(CATALOGUE)


def test_every_public_name_says_what_it_is_with_an_example():
    for public in data.__all__:
        assert ">>>" in inspect.getdoc(getattr(data, public)), public


def test_entries_are_complete(name):
    entry = CATALOGUE[name]
    assert entry.name == name
    assert entry.files
    for file in entry.files:
        assert re.fullmatch(r"[0-9a-f]{64}", file.sha256)
        assert not Path(file.path).is_absolute()
    for text in (entry.title, entry.publisher, entry.obtain, entry.citation, entry.terms):
        assert text
        assert text in entry.description


def test_no_two_entries_share_a_file():
    paths = [file.path for entry in CATALOGUE.values() for file in entry.files]
    assert len(set(paths)) == len(paths)


def test_missing_files_are_named_with_directory_and_publisher(loaders, name, tmp_path):
    entry = CATALOGUE[name]
    with pytest.raises(DatasetNotFound) as caught:
        loaders[name](data_home=tmp_path)
    message = str(caught.value)
    for part in (name, str(tmp_path), entry.publisher, entry.obtain, "OVK_DATA", "data_home"):
        assert part in message
    for file in entry.files:
        assert file.path in message
    assert "\n" not in message


def test_only_the_missing_file_is_named(tmp_path):
    (tmp_path / "geostat").mkdir()
    (tmp_path / "geostat" / "jura_pred.csv").touch()
    with pytest.raises(DatasetNotFound, match=r"needs geostat/jura_val\.csv, not found"):
        data.load_jura(data_home=tmp_path)


@pytest.mark.parametrize("value", [None, ""])
def test_no_directory_named(monkeypatch, value):
    if value is None:
        monkeypatch.delenv("OVK_DATA", raising=False)
    else:
        monkeypatch.setenv("OVK_DATA", value)
    with pytest.raises(DatasetNotFound, match="neither the argument data_home nor the variable OVK_DATA"):
        data.load_wine()
    assert not any(available().values())


def test_not_found_is_a_file_not_found_error(tmp_path):
    with pytest.raises(FileNotFoundError):
        data.load_wine(data_home=tmp_path / "absent")


def test_argument_wins_over_variable(monkeypatch, tmp_path):
    monkeypatch.setenv("OVK_DATA", str(tmp_path / "variable"))
    with pytest.raises(DatasetNotFound, match=re.escape(str(tmp_path / "variable"))):
        data.load_wine()
    with pytest.raises(DatasetNotFound, match=re.escape(str(tmp_path / "argument"))):
        data.load_wine(data_home=str(tmp_path / "argument"))


def test_available_looks_at_names_only(name, tmp_path):
    assert not available(tmp_path)[name]
    for file in CATALOGUE[name].files:
        path = tmp_path / file.path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    assert [found for found, there in available(tmp_path).items() if there] == [name]


def test_wrong_content_is_corrupt(loaders, name, tmp_path):
    for file in CATALOGUE[name].files:
        path = tmp_path / file.path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"1,2\n3,4\n")
    with pytest.raises(DatasetCorrupt, match="sha256") as caught:
        loaders[name](data_home=tmp_path)
    message = str(caught.value)
    for part in (name, str(tmp_path), CATALOGUE[name].files[0].path, CATALOGUE[name].publisher):
        assert part in message
    assert isinstance(caught.value, ValueError)


def test_one_flipped_bit_is_corrupt(load, tmp_path):
    entry = CATALOGUE["gait"]
    (content,) = load(read_files, entry, None)
    path = tmp_path / entry.files[0].path
    path.parent.mkdir()
    path.write_bytes(content)
    assert data.load_gait(data_home=tmp_path).data.shape == (39, 20)
    path.write_bytes(content[:100] + bytes([content[100] ^ 1]) + content[101:])
    with pytest.raises(DatasetCorrupt):
        data.load_gait(data_home=tmp_path)
    shutil.rmtree(path.parent)
    with pytest.raises(DatasetNotFound):
        data.load_gait(data_home=tmp_path)


@pytest.mark.parametrize(("loader", "known"), [(data.load_mtr, "andro"), (data.load_dream3, "E1")])
def test_unknown_name(loader, known):
    with pytest.raises(ValueError, match=f"name must be one of .*'{known}'.*, got 'other'"):
        loader("other")


def test_the_command_lists_what_is_missing_and_where_to_get_it(capsys, tmp_path):
    assert main(["--data", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    assert "missing" in out
    for entry in CATALOGUE.values():
        assert f"{entry.publisher} offers it ({entry.obtain})" in out
    assert main(["--data", str(tmp_path), "--json"]) == 0
    listing = json.loads(capsys.readouterr().out)
    assert set(listing) == set(CATALOGUE)
    assert listing["wine"]["found"] is False
    assert (listing["wine"]["samples"], listing["wine"]["outputs"]) == (4898, 1)
