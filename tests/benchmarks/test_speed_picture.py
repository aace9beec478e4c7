"""The picture of speeds, from results of the benchmarks."""

import json

import pytest
from benchmarks.speed_picture import JOBS, draw, main, ratios

from benchmarks import speed_picture


def report(*benchmarks):
    return {"benchmarks": [{"name": name, "cases": cases} for name, cases in benchmarks]}


def case(name, **ours_over_this):
    return {
        "name": name,
        "contenders": [{"name": key, "ours_over_this": ratio} for key, ratio in ours_over_this.items()],
    }


def test_ratios_are_of_the_named_case_and_of_the_named_contenders():
    job = next(job for job in JOBS if job.benchmark == "online_peers")
    other = case("parkinsons", river=0.5)
    found = ratios(report(("online_peers", [other, case("cod-rna", river=0.02, OLOK=1.0)])), job)
    assert found == {"river": 50.0}
    assert ratios(report(("ridge", [other])), job) == {}


def test_only_what_was_measured_is_drawn(tmp_path, monkeypatch):
    pytest.importorskip("matplotlib")
    path = tmp_path / "speed.png"
    results = tmp_path / "results.json"
    results.write_text(json.dumps(report(("online_peers", [case("cod-rna", river=0.02)]))), encoding="utf-8")
    monkeypatch.setattr(speed_picture, "PICTURE", path)
    assert main([str(results)]) == 0
    assert path.read_bytes().startswith(b"\x89PNG")
    draw(report(), path)
