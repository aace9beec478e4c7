"""The registry of reproductions and its command."""

import json

import pytest
from reproduce.__main__ import RESULTS, main

import reproduce
from reproduce import code_digest, registry

pytestmark = pytest.mark.long


@pytest.fixture
def one(monkeypatch):
    """A registry with a single reproduction in it."""
    monkeypatch.setattr(registry, "_ENTRIES", {})

    @reproduce.reproduction("toy", "A paper")
    def toy(data_home=None):
        rows = [reproduce.Row("error", 0.25, 0.3, "one setting"), reproduce.Row("theirs", None, 0.5)]
        return reproduce.Result("Toy", "error, small is good", "none", rows, ["A remark."])

    # Digests are of modules of ovk and reproduce.
    toy.__module__ = "reproduce.jura"
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


def test_the_digest_follows_what_is_imported_but_not_comments(tmp_path, monkeypatch):
    """A reproduction is stale if the code of a function that it imports changes, through any number of modules."""
    package = tmp_path / "ovk"
    package.mkdir()
    files = {
        "__init__": "from ovk.one import used\nfrom ovk.two import unused\n",
        "one": "from ovk.three import base\ndef used():\n    return base()\n",
        "two": "def unused():\n    return 2\n",
        "three": "def base():\n    return 3\n",
        "run": "from ovk import used\n",
    }
    for name, text in files.items():
        (package / f"{name}.py").write_text(text)
    monkeypatch.setattr(code_digest, "ROOTS", {"ovk": package})

    def digest():
        for cached in (
            code_digest._path,
            code_digest._tree,
            code_digest._imports,
            code_digest._exports,
            code_digest._code,
        ):
            cached.cache_clear()
        return code_digest.digest("ovk.run")

    try:
        before = digest()
        (package / "two.py").write_text("def unused():\n    return 22\n")
        (package / "three.py").write_text('def base():\n    """Three."""\n    return 3  # as before\n')
        assert digest() == before
        (package / "three.py").write_text("def base():\n    return 4\n")
        assert digest() != before
    finally:
        digest()


def test_every_committed_result_has_a_digest_and_stale_ones_are_listed(one, capsys, tmp_path, monkeypatch):
    for path in RESULTS.glob("*.json"):
        code = json.loads(path.read_text())["code"]
        # None: it ran before digests were stored.
        assert code is None or len(code) == 12, path
    monkeypatch.setattr("reproduce.__main__.RESULTS", tmp_path)
    reproduce.run("toy").save(tmp_path, "toy")
    assert main(["--stale"]) == 0
    assert capsys.readouterr().out == ""
    content = json.loads((tmp_path / "toy.json").read_text())
    for code, reason in (("0" * 12, "its code has changed"), (None, "its code is not known")):
        (tmp_path / "toy.json").write_text(json.dumps(content | {"code": code}))
        assert main(["--stale"]) == 0
        assert capsys.readouterr().out.startswith(f"toy             {reason}")
