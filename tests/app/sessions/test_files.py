"""Files larger than memory, learned in ranges from the command line and from Python."""

import json
import subprocess
import sys
from functools import partial

import numpy as np
import pytest

from ovk import load
from ovk.app.cli import main
from ovk.app.parallel import WorkersLostError
from ovk.app.parallel.engines import local_cluster
from ovk.app.sessions import Settings, fit_files
from ovk.app.tables import split_files
from processes import PATIENCE, environment, free_port


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    """Three files with words, missing values and an unreadable cell."""
    directory = tmp_path_factory.mktemp("files")
    rng = np.random.default_rng(0)
    for i in range(3):
        lines = ["place,u,a,b"]
        for _ in range(150):
            u, north = rng.uniform(-2, 2), rng.uniform() < 0.5
            a = np.sin(u) + north + 0.1 * rng.standard_normal()
            b = "" if rng.uniform() < 0.2 else repr(float(u * u + 0.1 * rng.standard_normal()))
            lines.append(f"{'north' if north else 'south'},{u!r},{float(a)!r},{b}")
        lines[5] = lines[5].replace(",", ",x", 1) if i == 1 else lines[5]
        (directory / f"{i}.csv").write_text("\n".join(lines) + "\n")
    return directory


def test_files_are_learned_in_ranges(directory):
    ranges = split_files(str(directory / "*.csv"), size=3000)
    assert len(ranges) > 4
    fitted = fit_files(ranges, Settings(["a", "b"]), landmarks=40)
    assert (fitted.n_rows, fitted.n_bad) == (450, 1)
    # The noise has a variance of 0.01.
    assert (fitted.scores[0].mse < 0.02).all()
    assert (fitted.scores[1].mse > 0.5).all()
    coverage = fitted.recent.coverage[2]
    assert (np.abs(coverage - 0.9) < 0.05).all()
    with pytest.raises(ValueError, match="omit lags"):
        fit_files(ranges, Settings(["a"], lags=[1]))
    (directory / "other.txt").write_text("u,a\n1,2\n")
    with pytest.raises(ValueError, match="all files must have the same columns"):
        fit_files([*ranges, *split_files(directory / "other.txt")], Settings(["a"]))


@pytest.mark.long
def test_the_command_with_a_separate_scheduler(directory, tmp_path, capsys):
    pytest.importorskip("distributed")
    port = free_port()
    address = f"tcp://127.0.0.1:{port}"
    common = [sys.executable, "-m", "distributed.cli.dask_scheduler", "--host", "127.0.0.1", "--port", str(port)]
    one = [sys.executable, "-m", "distributed.cli.dask_worker", address, "--nthreads", "1", "--no-dashboard"]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "env": environment()}
    processes = [subprocess.Popen([*common, "--dashboard-address", "127.0.0.1:0"], **quiet)]
    try:
        processes += [subprocess.Popen([*one, "--no-nanny", "--host", "127.0.0.1"], **quiet) for _ in range(2)]
        import distributed

        with distributed.Client(address, timeout=PATIENCE) as client:
            client.wait_for_workers(2, timeout=PATIENCE)
        model = tmp_path / "m.ovk"
        pattern = str(directory / "*.csv")
        main_done(
            [
                "fit",
                pattern,
                "--targets",
                "a,b",
                "--landmarks",
                "30",
                "--save",
                str(model),
                "--scheduler",
                address,
                "--json",
            ]
        )
    finally:
        # A worker whose scheduler has ended may wait for it for minutes: do not close it.
        for process in processes:
            process.kill()
            process.wait()
    found = json.loads(capsys.readouterr().out)
    assert max(found["loo_mse"]) < 0.02
    alone = fit_files(split_files(pattern), Settings(["a", "b"], kernel="auto"), landmarks=30)
    np.testing.assert_array_equal(load(model).estimator.dual_coef_, alone.estimator.dual_coef_)
    main_done(["predict", str(model), str(directory / "0.csv"), "--out", str(tmp_path / "p.csv")])
    assert (tmp_path / "p.csv").read_text().count("\n") == 151


@pytest.mark.long
def test_the_command_with_local_workers(directory, tmp_path, capsys, monkeypatch):
    pytest.importorskip("distributed")
    # In threads of this process, which start immediately.
    monkeypatch.setattr("ovk.app.cli.fit.local_cluster", partial(local_cluster, processes=False))
    asked = ["fit", str(directory / "[0-9].csv"), "--targets", "a,b", "--landmarks", "20", "--json", "--save"]
    main_done([*asked, str(tmp_path / "two.ovk"), "--workers", "2"])
    main_done([*asked, str(tmp_path / "one.ovk")])
    one, two = (load(tmp_path / f"{name}.ovk").estimator.dual_coef_ for name in ("one", "two"))
    np.testing.assert_array_equal(one, two)


def test_lost_workers_are_reported_in_one_sentence(directory, tmp_path, capsys, monkeypatch):
    def lost(*arguments):
        raise WorkersLostError("no worker for 120 s (worker_timeout) while learning", 1, 3)

    monkeypatch.setattr("ovk.app.cli.fit.fit_files", lost)
    with pytest.raises(SystemExit) as ended:
        main(["fit", str(directory / "0.csv"), "--targets", "a", "--landmarks", "9", "--save", str(tmp_path / "m.ovk")])
    assert ended.value.code == 1
    told = " ".join(capsys.readouterr().err.split())
    assert "1 of 3 parts are finished: start workers and run this again" in told


def main_done(arguments):
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code in (0, None)


def test_wrong_calls(directory, tmp_path, capsys):
    pytest.importorskip("distributed")
    asked = ["fit", str(directory / "*.csv"), "--targets", "a", "--save", str(tmp_path / "m.ovk")]
    for more, text in [
        (["--scheduler", "tcp://127.0.0.1:1", "--workers", "2"], "cannot be combined"),
        (["--scheduler", "nonsense://x"], "no Dask scheduler at"),
    ]:
        with pytest.raises(SystemExit) as ended:
            main([*asked, *more])
        assert ended.value.code == 2
        assert text in capsys.readouterr().err


def test_the_number_of_landmarks_is_reported(directory):
    fitted = fit_files(split_files(str(directory / "[0-9].csv")), Settings(["a", "b"]), landmarks=30)
    # Fewer than 30 if some add nothing.
    assert f", {fitted.estimator.landmarks_.m} landmarks" in str(fitted.summary())
