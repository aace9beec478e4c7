"""Sessions over partitions of a stream merge into the model of all rows."""

import json

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from brokers import NAMES, csv_file, table
from ovk import PKAWV, load, save
from ovk.app.cli import main
from ovk.app.sessions import Settings, learn, merge_sessions
from ovk.app.tables import Batch, open_records
from ovk.evaluation import RecentErrors
from ovk.features import LinearFourier
from ovk.kernels import Gaussian

SIZES = (300, 170, 410)
PARTS = [table(n, seed) for seed, n in enumerate(SIZES)]


def settings(**others):
    return Settings(["a", "b"], **{"model": "pkawv", "warm_up": 100, "block": 64, **others})


def learned(directory, i, rows, **how):
    with open_records(csv_file(directory / f"{i}.csv", rows)) as records:
        return learn(records, **{"settings": None, **how})


def predictions(session, rows):
    session.preparation.bind(NAMES, predict=True)
    batch = Batch([list(map(repr, column)) for column in rows.T], list(range(len(rows))), [])
    return session.predictor().predict(batch).F


@pytest.fixture
def sessions(tmp_path):
    first = learned(tmp_path, 0, PARTS[0], settings=settings())
    return [first, *(learned(tmp_path, i, PARTS[i], template=first) for i in (1, 2))]


def test_merged_partitions_are_the_session_of_all_rows(sessions, tmp_path):
    save(sessions[0], tmp_path / "m.ovk")
    for i in (1, 2):
        whole = learned(tmp_path, i, PARTS[i], continue_with=tmp_path / "m.ovk")
    merged = merge_sessions(sessions)
    new = table(20, seed=9)
    assert_allclose(predictions(merged, new), predictions(whole, new), rtol=0, atol=1e-10)
    assert (merged.earlier, merged.evaluator.model.t_) == (sum(SIZES), whole.evaluator.model.t_)
    assert_allclose(merged.moments.sd, whole.moments.sd)
    tested = [session.result().counts[-1] for session in (*sessions, merged)]
    assert_array_equal(sum(tested[:3]), tested[3])
    squares = [session.result().model.mse * count for session, count in zip((*sessions, merged), tested, strict=True)]
    assert_allclose(sum(squares[:3]), squares[3])


def test_merged_sessions_keep_the_level(tmp_path):
    first = learned(tmp_path, 0, PARTS[0], settings=settings(level=0.7))
    second = learned(tmp_path, 1, PARTS[1], template=first)
    merged = merge_sessions([first, second])
    assert [session.recent.level for session in (first, second, merged)] == [0.7, 0.7, 0.7]
    assert merged.recent.shown.level == 0.7


def test_bad_rows_of_all_parts_are_counted(sessions):
    for session, rows in zip(sessions, ([(3, "one")], [], [(1, "two"), (2, "two")]), strict=True):
        session.n_bad, session.bad_rows = len(rows), rows
    merged = merge_sessions(sessions)
    assert (merged.n_bad, merged.bad_rows) == (3, [(3, "one"), (1, "two"), (2, "two")])


def test_merging_does_not_change_the_sessions(sessions, tmp_path):
    before = [predictions(session, PARTS[0][:5]) for session in sessions]
    merge_sessions(sessions)
    for session, found in zip(sessions, before, strict=True):
        assert_array_equal(predictions(session, PARTS[0][:5]), found)
    save(sessions[1], tmp_path / "one.ovk")
    more = np.vstack([PARTS[1], PARTS[0]])
    assert learned(tmp_path, 1, more, resume=tmp_path / "one.ovk").offset == len(more)


def test_lags_of_a_partition_use_its_own_rows(tmp_path):
    first = learned(tmp_path, 0, PARTS[0], settings=settings(lags=[1]))
    other = learned(tmp_path, 1, PARTS[1], template=first)
    assert_allclose(other.preparation.lags_.past_, PARTS[1][-1:, 2:])
    assert other.offset == SIZES[1]
    assert merge_sessions([first, other]).evaluator.n_rows == SIZES[0] + SIZES[1]


def test_a_partition_without_rows_is_rejected(sessions, tmp_path):
    with pytest.raises(ValueError, match=r"3\.csv has no rows yet"):
        learned(tmp_path, 3, PARTS[0][:0], template=sessions[0], save_to=tmp_path / "m.ovk")
    assert not (tmp_path / "m.ovk").exists()


def test_a_merged_session_is_saved_and_continues(sessions, tmp_path):
    save(merge_sessions(sessions), tmp_path / "all.ovk")
    again = learned(tmp_path, 3, PARTS[0], continue_with=tmp_path / "all.ovk")
    assert again.evaluator.model.t_ == sum(SIZES) + SIZES[0]


def test_sessions_without_a_template_cannot_be_merged(sessions, tmp_path):
    other = learned(tmp_path, 1, PARTS[1], settings=settings())
    with pytest.raises(ValueError, match="is the template of the others"):
        merge_sessions([sessions[0], other])
    other = learned(tmp_path, 1, PARTS[1], settings=settings(lags=[1]))
    with pytest.raises(ValueError, match="lags differ"):
        merge_sessions([sessions[0], other])
    other = learned(tmp_path, 1, PARTS[1], settings=settings(model="olok"))
    with pytest.raises(ValueError, match="must be mergeable, and OLOK is not"):
        learned(tmp_path, 2, PARTS[2], template=other)


def test_sessions_with_classes_cannot_be_merged(tmp_path):
    rows = np.column_stack([PARTS[0][:, :2], PARTS[0][:, 0] > 0, PARTS[0][:, 1]])
    asked = Settings(["a"], features=["u", "v"], warm_up=100, block=64, classify=True)
    session = learned(tmp_path, 0, rows, settings=asked)
    with pytest.raises(ValueError, match="sessions with classes cannot be merged"):
        merge_sessions([session, session])


def test_intervals_of_a_merged_session_come_from_the_last_rows_of_both():
    rng = np.random.default_rng(0)
    recents = [RecentErrors.empty(1, size=400) for _ in range(2)]
    for recent, scale in zip(recents, (1.0, 3.0), strict=True):
        recent.update(np.zeros((1000, 1)), scale * rng.standard_normal((1000, 1)))
    one, two = recents
    before = one.tested + two.tested
    last = np.concatenate([one.Y[-200:], two.Y[-200:]])
    one.merge(two)
    assert_array_equal(np.sort(one.Y, axis=0), np.sort(last, axis=0))
    assert_array_equal(one.tested, before)
    assert one.half.shape == one.Y.shape == one.F.shape == (400, 1)
    assert np.mean(np.abs(last) <= one.widths(0.9)) == pytest.approx(0.9, abs=0.01)


def test_learners_on_linear_and_fourier_features_merge():
    X = np.random.default_rng(0).standard_normal((60, 2))

    def fitted(rows):
        model = PKAWV(Gaussian(1.0), features=LinearFourier(5), warm_up=0, random_state=0)
        return model.fit(X[rows], X[rows, 0] ** 2)

    merged = fitted(slice(0, 30)).merge(fitted(slice(30, None)))
    assert_allclose(merged.predict(X), fitted(slice(None)).predict(X), atol=1e-10)


def run(*arguments):
    with pytest.raises(SystemExit) as end:
        main([str(argument) for argument in arguments])
    return end.value.code


def test_the_command(tmp_path, capsys):
    files = [csv_file(tmp_path / f"{i}.csv", rows) for i, rows in enumerate(PARTS)]
    models = [tmp_path / f"{i}.ovk" for i in range(3)]
    assert run("stream", files[0], "--targets", "a,b", "--model", "pkawv", "--warm-up", 100, "--save", models[0]) == 0
    for i in (1, 2):
        # The same command starts the session and resumes it.
        for _ in range(2):
            assert run("stream", files[i], "--template", models[0], "--resume", models[i]) == 0
    capsys.readouterr()
    assert run("merge", *models, "--save", tmp_path / "all.ovk", "--json") == 0
    assert json.loads(capsys.readouterr().out)["rows"] == sum(SIZES)
    assert load(tmp_path / "all.ovk").evaluator.model.t_ == sum(SIZES)
    assert run("predict", tmp_path / "all.ovk", files[0], "--out", tmp_path / "p.csv") == 0
    assert run("merge", models[0], "--save", tmp_path / "x.ovk") == 2
    assert run("merge", *models, "--save", models[0]) == 2
    assert run("merge", models[0], files[0], "--save", tmp_path / "x.ovk") == 4
    assert run("stream", files[1], "--template", models[0], "--save", models[0]) == 2
    assert run("stream", files[1], "--template", tmp_path / "none.ovk") == 2
    assert run("stream", files[1], "--template", models[0], "--lags", "1") == 2
