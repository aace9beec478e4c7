"""A kill at any step of a checkpoint leaves files from which the run resumes with the same result."""

import itertools

import pytest

from household import series
from ovk.app.sessions import Settings, learn
from ovk.app.tables import open_records
from ovk.persistence import container, load


class Killed(BaseException):
    """Simulates SIGKILL: no later code runs."""


def run(path, directory, killed_at=None, monkeypatch=None, every=200):
    """Learn to the end; each run is killed at its n-th disk operation."""
    settings = Settings(["a", "b"], lags=[1, 2], model="olok", warm_up=100, block=50, every=every)
    steps = itertools.count()

    def counted(function):
        def step(*arguments, **options):
            if next(steps) == killed_at:
                raise Killed
            return function(*arguments, **options)

        return step

    with monkeypatch.context() as patch:
        for name in ("open", "replace", "fsync"):
            patch.setattr(container.os, name, counted(getattr(container.os, name)))
        # A killed process does not clean up.
        patch.setattr(container.os, "unlink", lambda path: None)
        with open_records(path) as records:
            learn(
                records,
                settings,
                save_to=directory / "m.ovk",
                resume=directory / "m.ovk",
                predictions=directory / "parts",
            )
    return next(steps)


def contents(directory):
    parts = {p.name: p.read_bytes() for p in (directory / "parts").iterdir() if p.suffix == ".csv"}
    return (directory / "m.ovk").read_bytes(), parts


# With every=100, the warm-up ends at a multiple of it.
@pytest.mark.parametrize(
    ("stride", "every"), [(7, 200), (3, 100), *(pytest.param(1, n, marks=pytest.mark.long) for n in (100, 200))]
)
def test_kill_at_every_step_of_every_checkpoint(stride, every, tmp_path, monkeypatch):
    path = series(tmp_path / "t.csv", 700 if every == 200 else 260)
    whole = tmp_path / "whole"
    whole.mkdir()
    steps = run(path, whole, None, monkeypatch, every)
    assert steps > 20
    expected = contents(whole)
    for step in range(0, steps, stride):
        directory = tmp_path / f"step{step}"
        directory.mkdir()
        with pytest.raises(Killed):
            run(path, directory, step, monkeypatch, every)
        if (directory / "m.ovk").exists():
            load(directory / "m.ovk")
        run(path, directory, None, monkeypatch, every)
        assert contents(directory) == expected
