"""Tests of help, completion, `ovk fit`, `ovk predict`, `ovk demo` and `ovk inspect`."""

import csv
import json
import os
import re
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest

import ovk as package
from household import series
from ovk import OLOK, save
from ovk.app.cli import output
from ovk.app.cli.app import COMMANDS
from ovk.app.cli.demo import COMMANDS as DEMO_COMMANDS
from ovk.app.cli.demo import write_demo_table
from ovk.app.sessions import Settings, declared, option_of
from ovk.persistence import load


def test_version_and_help(ovk):
    assert ovk("--version")[1] == f"ovk {package.__version__}\n"
    code, out, _ = ovk("--help")
    assert code == 0
    for word in ("demo", "stream", "fit", "predict", "inspect", "Exit codes"):
        assert word in out
    assert ovk("stream", "--help")[0] == 0
    assert ovk("nonsense")[0] == 2


def test_missing_packages_are_named(tmp_path):
    code = "import sys; sys.modules['typer'] = None; from ovk.app.cli import main; main([])"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert found.returncode == 5
    assert found.stderr == "the command line requires the extra 'cli' of ovk: pip install typer rich\n"


#: The processor seconds of this process, and which modules are loaded.
REPORT = "import sys, time, json; print(json.dumps([time.process_time(), sorted(sys.modules)]), file=sys.stderr)"
COMPLETION = {"_OVK_COMPLETE": "complete_bash", "COMP_WORDS": "ovk st", "COMP_CWORD": "1"}


def run_ovk(*arguments, code="from ovk.app.cli import main; main(sys.argv[1:])", **environment):
    """Output, processor seconds and loaded modules of a process."""
    code = f"import sys\ntry:\n    {code}\nfinally:\n    {REPORT}"
    command = [sys.executable, "-c", code, *arguments]
    found = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **environment})
    seconds, modules = json.loads(found.stderr.splitlines()[-1])
    return found.stdout, seconds, set(modules)


@pytest.mark.parametrize(
    ("arguments", "environment", "words"),
    [(["--help"], {}, "Commands:"), (["--version"], {}, "ovk "), ([], COMPLETION, "stream")],
    ids=["help", "version", "completion"],
)
def test_help_version_and_completion_load_no_numerical_library(arguments, environment, words):
    out, _, modules = run_ovk(*arguments, **environment)
    assert words in out
    assert not {"numpy", "scipy", "sklearn"} & modules


def test_help_of_a_command_loads_no_other_command():
    out, _, modules = run_ovk("stream", "--help")
    assert "--targets" in out
    others = {f"ovk.app.cli.{name}" for name in COMMANDS if name != "stream"}
    assert not (others | {"ovk.plotting", "ovk.app.serve"}) & modules


def test_help_takes_little_more_time_than_its_packages():
    """Compares the smallest processor time of five interleaved runs."""
    seconds = [(run_ovk("--help")[1], run_ovk(code="import typer, rich")[1]) for _ in range(5)]
    ours, theirs = map(min, zip(*seconds, strict=True))
    assert ours < 1.5 * theirs


def test_shell_completion(ovk):
    assert "--install-completion" in ovk("--help")[1]


def test_misspelt_commands_are_suggested(ovk):
    code, _, err = ovk("straem")
    assert code == 2
    assert "Did you mean 'stream'?" in err


def test_fit_then_predict(ovk, tmp_path):
    path, model = series(tmp_path / "t.csv", 200, missing=0.0), tmp_path / "m.ovk"
    code, out, err = ovk(
        "fit", path, "--targets", "a,b", "--lags", "1", "--features", "x,word", "--save", model, "--json"
    )
    assert code == 0
    assert err == ""
    found = json.loads(out)
    assert found["loo_rows"] == "the last fifth of the rows"
    assert all(mine < mean for mine, mean in zip(found["loo_mse"], found["loo_mse_of_mean"], strict=True))
    code, out, _ = ovk("predict", model, path, "--level", 0.8)
    rows = list(csv.DictReader(out.splitlines()))
    assert len(rows) == 200
    truth = list(csv.DictReader(path.read_text().splitlines()))
    inside = [
        float(row["b lower"]) <= float(real["b"]) <= float(row["b upper"])
        for row, real in zip(rows, truth, strict=True)
    ]
    assert np.mean(inside) > 0.6
    code, out, _ = ovk("predict", model, path, "--json", "--out", tmp_path / "p.jsonl")
    assert code == 0
    first = json.loads((tmp_path / "p.jsonl").read_text().splitlines()[0])
    assert first["row"] == 1
    assert first["a"]["lower"] < first["a"]["prediction"] < first["a"]["upper"]


def test_output_of_fit(ovk, tmp_path, monkeypatch):
    monkeypatch.setattr("ovk.app.sessions.table_model.MIN_ROWS_ANNOUNCED", 100)
    path, model, page = tmp_path / "t.csv", tmp_path / "m.ovk", tmp_path / "r.html"
    lines = [f"{'ERR' if i in (7, 9) else i % 7},{'' if i % 2 else i % 7},{i % 7 + 1}" for i in range(100)]
    path.write_text("x,half,whole\n" + "\n".join(lines), encoding="utf-8")
    asked = ("fit", path, "--targets", "half,whole", "--save", model, "--report", page, "--warn-bad", 0.5)
    code, out, err = ovk(*asked)
    assert (code, err) == (0, "comparing kernels, some in learned metrics, on 100 rows...\n")
    assert "2 of 100 rows (2.0%) had unreadable cells (row 1 is the first row of data):" in out
    assert "  'ERR' in column 'x' cannot be read (treated as missing): 2 rows (8, 10)\n" in out
    assert "values observed: half 50%\n" in out
    assert "on held-out rows: every fifth row" in out
    assert re.search(r"^chosen: .*kernel.*, outputs (not )?coupled.*, alpha ", out, re.MULTILINE)
    assert "array(" not in out
    assert f"report: {page}\n" in out
    shown = page.read_text(encoding="utf-8")
    for words in (f"Results for {path.name}", "every fifth row", "2 rows had unreadable cells", "50.0%"):
        assert words in shown
    assert ovk(*asked[:-3], tmp_path / "no" / "r.html")[0] == 2


@pytest.mark.parametrize("ending", ["csv", "jsonl", "parquet"])
def test_kept_columns(ovk, tmp_path, ending):
    path, model, found = tmp_path / "t.csv", tmp_path / "m.ovk", tmp_path / f"p.{ending}"
    names = ["=cmd", "-1", 'a "b"', *(f"n{i}" for i in range(57))]
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([["id", "x", "y"], *([name, i % 7, i % 7] for i, name in enumerate(names))])
    assert ovk("fit", path, "--targets", "y", "--features", "x", "--save", model)[0] == 0
    asked = ["predict", model, path, "--keep", "id", "--out", found, *(["--json"] if ending == "jsonl" else [])]
    assert ovk(*asked)[0] == 0
    if ending == "csv":
        rows = list(csv.DictReader(found.read_text(encoding="utf-8").splitlines()))
        assert list(rows[0]) == ["id", "row", "y", "y lower", "y upper", "y outcome"]
        # A spreadsheet must not run the first one.
        assert [row["id"] for row in rows] == ["'=cmd", *names[1:]]
    elif ending == "jsonl":
        rows = [json.loads(line) for line in found.read_text(encoding="utf-8").splitlines()]
        assert [row["id"] for row in rows] == names
    else:
        parquet = pytest.importorskip("pyarrow.parquet")
        assert parquet.read_table(found)["id"].to_pylist() == names
    code, _, err = ovk("predict", model, path, "--keep", "idd")
    assert (code, "did you mean 'id'?" in err) == (3, True)
    code, _, err = ovk("predict", model, path, "--keep", "y")
    assert (code, "clashes with a column" in err) == (3, True)


def test_a_stream_predicts_rows_it_has_not_learned(ovk, tmp_path):
    path, model = series(tmp_path / "t.csv", 400), tmp_path / "m.ovk"
    assert ovk("stream", path, "--targets", "a", "--features", "x,word", "--save", model, "--warm-up", 100)[0] == 0
    before = model.read_bytes()
    new = tmp_path / "new.csv"
    new.write_text("word,x\nred,0.5\nblue,oops\npurple,?\n", encoding="utf-8")
    code, out, err = ovk("predict", model, new)
    assert code == 0
    assert [row["row"] for row in csv.DictReader(out.splitlines())] == ["1", "2", "3"]
    assert "1 row had unreadable cells" in err
    assert model.read_bytes() == before
    code, _, err = ovk("predict", model, path, "--level", 2)
    assert code == 2
    new.write_text("x\n1\n", encoding="utf-8")
    code, _, err = ovk("predict", model, new)
    assert code == 3
    assert "no column 'word' in new.csv" in err


def test_a_table_with_many_rows_is_fitted_with_landmarks(ovk, tmp_path, monkeypatch):
    monkeypatch.setattr("ovk.app.sessions.table_model.MAX_EXACT_ROWS", 100)
    monkeypatch.setattr("ovk.app.sessions.table_model.LANDMARKS", 30)
    path, model = series(tmp_path / "t.csv", 400, missing=0.0), tmp_path / "m.ovk"
    assert ovk("fit", path, "--targets", "a,b", "--lags", "1,2", "--save", model)[0] == 0
    assert load(model).estimator.landmarks == 30


def test_inspect(ovk, tmp_path):
    model = OLOK().fit(np.arange(20.0)[:, None], np.arange(1.0, 21.0))
    save(model, tmp_path / "m.ovk")
    code, out, _ = ovk("inspect", tmp_path / "m.ovk")
    assert code == 0
    assert out.startswith("online.OLOK")
    found = json.loads(ovk("inspect", tmp_path / "m.ovk", "--json")[1])
    assert found["class"] == "online.OLOK"
    assert any(array["shape"][0] == 20 for array in found["arrays"])
    code, _, err = ovk("predict", tmp_path / "m.ovk", series(tmp_path / "t.csv", 50))
    assert code == 4
    assert "contains OLOK" in err


@pytest.mark.long
def test_demo(ovk, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("ovk.app.cli.demo.WEEKS", 7)
    code, out, _ = ovk("demo", "--rows", 400, "--out", tmp_path)
    assert code == 0
    assert "no settings (AutoStream)" in out
    assert "Coupling the outputs lowers the error" in out
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "ovk demo" in page
    assert "://" not in page
    # The model is one that every command takes, and the plots show ordered rows.
    assert load(tmp_path / "demo.ovk").preparation.targets == ["north", "south", "east", "west"]
    assert page.index("Predictions and outcomes") < page.index("north") < page.index("Errors along the stream")
    _, *commands = (line.strip() for line in out.splitlines() if line.startswith(("table:", "  ovk ")))
    assert [line.split()[1] for line in commands] == ["plot", "forecast", "predict", "stream"]
    for line in commands[:3]:
        assert ovk(*line.split()[1:])[0] == 0, line
    for name in ("demo.png", "forecast.png", "predictions.csv"):
        assert (tmp_path / name).stat().st_size > 1000


def test_the_demo_leaves_nothing_untracked_in_a_checkout():
    root = Path(__file__).parents[3]
    written = {"report.html", "demo.ovk", "demo.csv", "demo.png"}
    for line in DEMO_COMMANDS:
        names = line.format(model="demo.ovk", table="demo.csv", directory="").split()
        written |= {name for name in names if name.endswith((".ovk", ".csv", ".html", ".png"))}
    ignored = {line.removeprefix("/") for line in (root / ".gitignore").read_text().splitlines()}
    assert written <= ignored


@pytest.mark.long
def test_commands_of_the_demo_and_the_readme_run(ovk, tmp_path, monkeypatch):
    write_demo_table(tmp_path / "demo.csv")
    monkeypatch.chdir(tmp_path)
    readme = (Path(__file__).parents[3] / "README.md").read_text(encoding="utf-8")
    [block] = [block for block in re.findall(r"```sh\n(.*?)```", readme, flags=re.DOTALL) if "ovk demo" in block]
    names = {"model": "model.ovk", "table": "demo.csv", "directory": ""}
    said = [
        DEMO_COMMANDS[-1].format(**names),
        *(one.format(**names) for one in DEMO_COMMANDS[:-1]),
        *block.replace("\\\n", "").splitlines()[1:],
    ]
    # The first command is the same in both places.
    for line in dict.fromkeys(" ".join(one.split()) for one in said):
        program, *arguments = line.split()
        assert program == "ovk"
        code, out, _ = ovk(*arguments)
        assert code == 0, line
        assert "below that of 'last value'" in out or arguments[0] != "stream"
    for name in ("model.html", "forecast.png", "model.ovk"):
        assert (tmp_path / name).stat().st_size > 1000


def test_the_demo_runs_without_matplotlib(ovk, tmp_path, monkeypatch):
    def missing(*arguments, **options):
        raise ImportError("plots require matplotlib")

    monkeypatch.setattr("ovk.app.cli.demo.report", missing)
    monkeypatch.setattr("ovk.app.cli.demo.WEEKS", 1)
    code, out, err = ovk("demo", "--rows", 400, "--out", tmp_path)
    assert code == 0
    assert "no report: plots require matplotlib" in err
    assert "coupled (OLOK)" in out
    assert "table:  " in out
    assert "report:" not in out


def test_unexpected_errors_are_reported_as_bugs(monkeypatch, capsys):
    message, code = output.explain(RuntimeError("boom"))
    assert "this is a bug in ovk" in message
    assert code == 1
    assert output.explain(KeyboardInterrupt()) == ("interrupted", 130)
    assert output.explain(MemoryError())[1] == 3
    monkeypatch.setenv("OVK_TRACEBACK", "1")
    output.explain(ValueError("x"))
    assert "ValueError: x" in capsys.readouterr().err


def test_invalid_kernels_couplings_and_formats_are_wrong_usage(ovk, tmp_path):
    path = series(tmp_path / "t.csv", 60)
    for command in (("stream", path), ("fit", path, "--save", tmp_path / "m.ovk")):
        for option, value in (("--kernel", "foo"), ("--coupling", 1), ("--format", "xlsx")):
            code, _, err = ovk(*command, "--targets", "a,b", option, value)
            assert code == 2, (command, option)
            assert option in err


@pytest.mark.long
def test_a_closed_pipe_is_not_an_error(ovk, tmp_path):
    """``ovk ... | head -1`` exits with 0 and prints no error."""
    path, model = series(tmp_path / "t.csv", 20000), tmp_path / "m.ovk"
    run = [sys.executable, "-m", "ovk"]
    settings = ["--targets", "a", "--features", "x", "--save", model]
    assert ovk("stream", series(tmp_path / "short.csv", 1500), *settings)[0] == 0
    process = subprocess.Popen([*run, "predict", str(model), str(path)], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout.readline().startswith(b"row,")
    process.stdout.close()
    assert process.stderr.read() == b""
    process.stderr.close()
    assert process.wait(600) == 0


@pytest.mark.parametrize("command", ["fit", pytest.param("stream", marks=pytest.mark.long)])
def test_constant_columns_are_reported(ovk, tmp_path, command):
    rng = np.random.default_rng(0)
    path, page = tmp_path / "t.csv", tmp_path / "r.html"
    rows = "".join(f"{a:.4f},7.5,{a:.3f},3\n" for a in rng.standard_normal(200))
    path.write_text(f"a,stuck,y,z\n{rows}")
    ask = (command, path, "--targets", "y,z", "--save", tmp_path / "m.ovk", "--report", page)
    code, out, err = ovk(*ask)
    assert code == 0
    assert "Column 'stuck' is 7.5 in every row: it carries no information." in err
    assert "Column 'z' is 3 in every row: there is nothing to learn." in err
    assert re.search(r"^z .* -( |$)", out, re.MULTILINE), "R2 of a constant is unknown"
    cells = re.search(r"<td[^>]*>stuck</td>(.*?)</tr>", page.read_text(encoding="utf-8"))[1]
    assert re.findall(r">([^<]+)</td>", cells)[-1] == "0"


@pytest.mark.parametrize("command", ["fit", "stream"])
@pytest.mark.parametrize(
    ("asked", "why"),
    [
        (("--targets", "a,b", "--classify"), "classification requires exactly one target"),
        (("--targets", "a", "--features", "a,b"), "is a target and a feature"),
        (("--targets", "a", "--ignore", "a"), "is both ignored and used"),
        (("--targets", "a,a"), "is named twice"),
    ],
)
def test_columns_with_conflicting_roles_are_wrong_usage(ovk, tmp_path, command, asked, why):
    code, _, err = ovk(command, series(tmp_path / "t.csv", 50), *asked, "--save", tmp_path / "m.ovk")
    assert code == 2
    assert why in err


def test_options_that_take_lists_can_be_repeated(ovk, tmp_path):
    path, model = series(tmp_path / "t.csv", 60), tmp_path / "m.ovk"
    lists = ("--targets", "a", "--targets", "b", "--ignore", "word", "--ignore", "x", "--lags", "1", "--lags", "2,3")
    assert ovk("fit", path, *lists, "--save", model)[0] == 0
    settings = load(model).settings
    assert (settings.targets, settings.ignore, settings.lags) == (["a", "b"], ["word", "x"], [1, 2, 3])
    code, out, _ = ovk("predict", model, path, "--keep", "x", "--keep", "word")
    assert (code, out.splitlines()[0].split(",")[:3]) == (0, ["x", "word", "row"])


@pytest.mark.parametrize("command", ["fit", "stream"])
def test_every_setting_of_a_command_is_an_option(ovk, command):
    out = ovk(command, "--help")[1]
    named = {option_of(one) for one in declared(Settings, command)}
    assert named <= {*re.findall(r"--[a-z-]+", out)}
    others = {option_of(one) for one in fields(Settings)} - named
    assert not others & {*re.findall(r"^  (--[a-z-]+)", out, re.MULTILINE)}


@pytest.mark.parametrize(
    ("option", "value"), [("--warm-up", 1), ("--block", 0), ("--checkpoint", 0), ("--max-bad", 2), ("--model", "magic")]
)
def test_settings_outside_their_limits_are_wrong_usage(ovk, tmp_path, option, value):
    code, _, err = ovk("stream", series(tmp_path / "t.csv", 60), "--targets", "a", option, value)
    assert code == 2
    assert option in err
