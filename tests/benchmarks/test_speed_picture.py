"""The picture of speeds, from results of the benchmarks."""

import json

import pytest
from benchmarks.speed_picture import JOBS, draw, main, measured

from benchmarks import speed_picture


def report(*benchmarks):
    return {"benchmarks": [{"name": name, "cases": cases} for name, cases in benchmarks]}


def case(name, settings=None, **ours_over_this):
    contenders = [{"name": key, "ours_over_this": ratio} for key, ratio in ours_over_this.items()]
    return {"name": name, "settings": settings or {"window": 9000}, "contenders": contenders}


def test_ratios_are_of_the_named_contenders_in_the_largest_case():
    job = next(job for job in JOBS if job.benchmark == "online_peers")
    cases = [
        case("cod-rna, some", river=0.5),
        case("cod-rna, all", river=0.02, OLOK=1.0),
        case("parkinsons", river=0.1),
    ]
    assert measured(report(("online_peers", cases)), job) == ("OLOK on cod-rna, window of 9,000", {"river": 50.0})
    assert measured(report(("ridge", cases)), job) is None


def test_only_what_was_measured_is_drawn(tmp_path, monkeypatch):
    pytest.importorskip("matplotlib")
    path = tmp_path / "speed.png"
    results = tmp_path / "results.json"
    results.write_text(json.dumps(report(("online_peers", [case("cod-rna", river=0.02)]))), encoding="utf-8")
    monkeypatch.setattr(speed_picture, "PICTURE", path)
    assert main([str(results)]) == 0
    assert path.read_bytes().startswith(b"\x89PNG")
    draw(report(), path)
