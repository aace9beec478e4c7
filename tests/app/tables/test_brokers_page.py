"""The quick start of the page "Learn from a broker", on a real server."""

import re
import shlex
from pathlib import Path

import pytest

from ovk import load
from ovk.app.cli import main

pytestmark = pytest.mark.long

PAGE = Path(__file__).parents[3] / "docs" / "howto" / "brokers.md"


def test_the_quick_start_runs(server, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    text = PAGE.read_text(encoding="utf-8").replace("4222", str(server.port))
    publish, learn = re.findall(r"```py\n(.*?)```", text, flags=re.DOTALL)
    [command] = re.findall(r"^(ovk stream \S+/READINGS --targets sum --save model.ovk)$", text, flags=re.MULTILINE)
    exec(compile(publish, str(PAGE), "exec"), {})
    with pytest.raises(SystemExit) as end:
        main(shlex.split(command)[1:])
    out, err = capsys.readouterr()
    assert not end.value.code, err
    assert "10,000 rows read" in out
    session = load("model.ovk")
    # A sum of two numbers between 0 and 1, whose variance is 1/6.
    assert session.result().model.mse[0] < 0.001
    exec(compile(learn, str(PAGE), "exec"), {})
    assert capsys.readouterr().out.startswith("10000 {'stream': 'nats READINGS")
