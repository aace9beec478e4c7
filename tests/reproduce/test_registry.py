"""The registry of reproductions and its command."""

import json

import pytest
from reproduce.__main__ import main

import reproduce
from reproduce import registry

pytestmark = pytest.mark.long


@pytest.fixture
def one(monkeypatch):
    """A registry with a single reproduction in it."""
    monkeypatch.setattr(registry, "_ENTRIES", {})

    @reproduce.reproduction("toy", "A paper")
    def toy(data_home=None):
        rows = [reproduce.Row("error", 0.25, 0.3, "one setting"), reproduce.Row("theirs", None, 0.5)]
        return reproduce.Result("Toy", "error, small is good", "none", rows, ["A remark."])

    return toy


def test_run_times_and_returns_the_result(one):
    result = reproduce.run("toy")
    assert result["error"] == 0.25
    assert result.seconds > 0
    with pytest.raises(KeyError):
        result["theirs"]


def test_names_are_unique_and_unknown_ones_are_listed(one):
    with pytest.raises(ValueError, match="already"):
        reproduce.reproduction("toy", "Another")(one)
    with pytest.raises(ValueError, match="no reproduction named 'nothing'; there are toy"):
        reproduce.run("nothing")


def test_markdown_has_every_row_and_remark():
    rows = [reproduce.Row("error", 0.25, 0.3, "one setting"), reproduce.Row("theirs", None, 0.5)]
    text = reproduce.Result("Toy", "error", "none", rows, ["A remark."]).to_markdown()
    assert "| error | 0.3 | 0.25 | one setting |" in text
    assert "| theirs | 0.5 |" in text
    assert "- A remark." in text


def test_the_command_prints_lists_and_writes(one, capsys, tmp_path):
    assert main([]) == 0
    assert "toy" in capsys.readouterr().out
    assert main(["toy", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["rows"][0]["ours"] == 0.25
    assert main(["all", "--out", str(tmp_path)]) == 0
    assert "## Toy" in capsys.readouterr().out
    assert (tmp_path / "toy.md").read_text().startswith("## Toy")
    assert json.loads((tmp_path / "toy.json").read_text())["title"] == "Toy"
    assert main(["nothing"]) == 2
    assert "there are toy" in capsys.readouterr().err


def test_missing_data_are_named_not_thrown(capsys, tmp_path):
    assert main(["jura", "--data", str(tmp_path)]) == 1
    assert "jura_pred.csv" in capsys.readouterr().err


def test_figures_are_written(tmp_path):
    from matplotlib.figure import Figure

    result = reproduce.Result("Toy", "error", "none", [], figures={"curve": Figure()})
    written = result.save(tmp_path, "toy")
    assert [path.name for path in written] == ["toy.md", "toy.json", "toy-curve.png"]
    assert written[-1].stat().st_size > 0
