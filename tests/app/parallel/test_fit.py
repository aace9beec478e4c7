"""Fits to parts equal those of one machine, bit-identical regardless of the workers."""

import os
import signal
from contextlib import nullcontext
from functools import partial
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse

import ovk
from ovk import IOKR, OLOK, PKAWV, OVKRidge, PKAWVClassifier
from ovk.app.parallel import PartitionError, fit
from ovk.app.parallel.engines import local_cluster
from ovk.app.parallel.partitions import FilePartition, GivenPartition
from ovk.app.tables import split_files
from ovk.features import Fourier, Given, Nystrom
from ovk.kernels import Gaussian
from ovk.operators import MixedEffect
from processes import PATIENCE

N = 600


def table(n=N):
    rng = np.random.default_rng(3)
    X = rng.uniform(-2, 2, (n, 2))
    Y = np.column_stack([np.sin(X[:, 0]), X[:, 0] * X[:, 1]]) + 0.1 * rng.standard_normal((n, 2))
    return X, Y


def rows(start, stop, holes=False):
    X, Y = table()
    if holes:
        Y = np.where(np.random.default_rng(7).uniform(size=Y.shape) < 0.3, np.nan, Y)
    return X[start:stop], Y[start:stop]


def weighted(start, stop):
    X, Y = rows(start, stop, holes=True)
    return X, Y, np.linspace(0.5, 2.0, N)[start:stop]


def cut(function, parts, **options):
    ends = np.linspace(0, N, parts + 1).astype(int)
    return [partial(function, int(a), int(b), **options) for a, b in pairwise(ends)]


KERNEL = Gaussian(1.0) * MixedEffect(0.5)


@pytest.mark.parametrize("parts", [2, 4, 7])
@pytest.mark.parametrize(("function", "options"), [(rows, {}), (rows, {"holes": True}), (weighted, {})])
def test_a_ridge_of_parts_is_that_of_one_machine(client, parts, function, options):
    estimator = OVKRidge(KERNEL, 0.1, fit_intercept=True, landmarks=20)
    pieces = cut(function, parts, **options)
    far, near = fit(estimator, pieces, client), fit(estimator, pieces)
    assert_array_equal(far.dual_coef_, near.dual_coef_)
    assert_array_equal(far.intercept_, near.intercept_)
    assert_array_equal(far.landmarks_.sums.S(), near.landmarks_.sums.S())
    whole = OVKRidge(KERNEL, 0.1, fit_intercept=True, landmarks=far.X_fit_).fit(*function(0, N, **options))
    X, _ = table()
    assert_allclose(far.predict(X), whole.predict(X), rtol=0, atol=1e-10)


def test_outputs_seen_in_different_chunks_or_parts_are_all_learned(tmp_path):
    X, Y = rows(0, 200)
    Y[100:, 0], Y[:100, 1] = np.nan, np.nan
    path = tmp_path / "rows.csv"
    np.savetxt(path, np.hstack([X, Y]), delimiter=",", header="u,v,a,b", comments="")
    estimator = OVKRidge(KERNEL, 0.1, landmarks=20)
    found = fit(estimator, [path], targets=["a", "b"], chunk_size=50, n_jobs=1)
    assert np.isfinite(found.predict(X[:5])).all()
    several = fit(estimator, [lambda part=part: (X[part], Y[part]) for part in (slice(0, 100), slice(100, 200))])
    assert np.isfinite(several.predict(X[:5])).all()


def test_the_landmarks_come_from_all_parts(client):
    model = fit(OVKRidge(KERNEL, landmarks=30), cut(rows, 4), client)
    X, _ = table()
    where = [int(np.flatnonzero((point == X).all(axis=1))[0]) * 4 // N for point in model.X_fit_]
    assert set(where) == {0, 1, 2, 3}


def test_processes_without_a_cluster_give_the_same_bits():
    estimator = OVKRidge(KERNEL, 0.1, landmarks=20)
    assert_array_equal(fit(estimator, cut(rows, 4), n_jobs=2).dual_coef_, fit(estimator, cut(rows, 4)).dual_coef_)


def test_alphas_are_chosen_by_left_out_errors(client):
    alphas = [1e-4, 1e-1, 1e2]
    pieces = cut(weighted, 3)
    model = fit(OVKRidge(KERNEL, landmarks=15), pieces, client, alphas=alphas)
    # The slow reference on some of the rows: a fit without each of them.
    X, Y, w = weighted(0, N)
    some = np.arange(0, N, 60)
    for alpha, error in zip(alphas, model.loo_errors_, strict=True):
        whole = OVKRidge(KERNEL, alpha, landmarks=model.X_fit_).fit(X, Y, w)
        E = whole.landmarks_.left_out(X, Y - whole.predict(X), w, alpha, intercept=whole.fit_intercept)
        assert_allclose(error, np.nansum(w[:, None] * E**2) / (w[:, None] * ~np.isnan(E)).sum(), rtol=1e-9)
        for i in some[:2]:
            rest = np.arange(N) != i
            without = OVKRidge(KERNEL, alpha, landmarks=model.X_fit_).fit(X[rest], Y[rest], w[rest])
            assert_allclose(E[i], Y[i] - without.predict(X[i : i + 1])[0], rtol=0, atol=1e-7)
    assert model.alpha_ == alphas[int(np.argmin(model.loo_errors_))] < 100


def test_forecasters_of_parts(client, tmp_path):
    X, Y = table()
    for features in (Nystrom(Given(X[:20])), Fourier(15), None):
        estimator = PKAWV(KERNEL, 0.1, features, random_state=1)
        far, near = fit(estimator, cut(rows, 4), client), fit(estimator, cut(rows, 4))
        assert_array_equal(far.predict(X), near.predict(X))
        whole = PKAWV(KERNEL, 0.1, far.features, random_state=1).fit(X, Y)
        assert_allclose(far.predict(X), whole.predict(X), rtol=0, atol=1e-9)
        assert far.t_ == N
    ovk.save(far, tmp_path / "model.ovk")
    with pytest.raises(ValueError, match="must not forget"):
        fit(PKAWV(KERNEL, discount=0.99), cut(rows, 2), client)


def labelled(start, stop):
    X, _ = rows(start, stop)
    return X, np.where(X[:, 0] > 0, "up", "down")


def test_learners_without_a_kernel_take_the_gaussian():
    X, _ = table()
    model = fit(PKAWV(), cut(rows, 3))
    assert_array_equal(model.predict(X), fit(PKAWV(Gaussian()), cut(rows, 3)).predict(X))
    labels = fit(PKAWVClassifier(), cut(labelled, 3), classes=["down", "up"])
    assert labels.score(*labelled(0, N)) > 0.95


def test_classifiers_of_parts():
    model = fit(PKAWVClassifier(Gaussian(1.0), 0.1), cut(labelled, 3), classes=["down", "up"])
    assert model.score(*labelled(0, N)) > 0.95
    with pytest.raises(ValueError, match="classes must contain"):
        fit(PKAWVClassifier(), cut(labelled, 3))


def mortal_rows(start, stop, directory, fatal=()):
    """Rows in two chunks; the first reader of a fatal part is killed between them."""
    X, Y = rows(start, stop)
    half = len(X) // 2
    yield X[:half], Y[:half]
    if start in fatal:
        try:
            (Path(directory) / str(start)).touch(exist_ok=False)
        except FileExistsError:
            pass
        else:
            os.kill(os.getpid(), signal.SIGKILL)
    yield X[half:], Y[half:]


@pytest.mark.long
def test_workers_that_are_killed_change_no_bit(client, tmp_path):
    """Workers die twice during the pass of sums; the sample only reads the first chunk."""
    estimator = OVKRidge(KERNEL, 0.1, landmarks=np.array(table()[0][:20]))
    parts = cut(mortal_rows, 7, directory=str(tmp_path))
    fatal = [parts[2].args[0], parts[5].args[0]]
    expected = fit(estimator, parts, client)
    found = fit(estimator, cut(mortal_rows, 7, directory=str(tmp_path), fatal=fatal), client)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(map(str, fatal))
    assert_array_equal(found.dual_coef_, expected.dual_coef_)
    client.wait_for_workers(2, timeout=PATIENCE)


def test_a_cluster_of_this_machine_listens_to_this_machine_alone(client):
    psutil = pytest.importorskip("psutil")
    pids = [os.getpid(), *(nanny.pid for nanny in client.cluster.workers.values())]
    sockets = [one for pid in pids for one in psutil.Process(pid).net_connections() if one.status == "LISTEN"]
    assert client.cluster.scheduler.http_server.port in {one.laddr.port for one in sockets}
    assert {one.laddr.ip for one in sockets} == {"127.0.0.1"}


def flaky_rows(start, stop, directory):
    """Rows whose first reading fails."""
    mark = Path(directory) / str(start)
    if not mark.exists():
        mark.touch()
        raise OSError("the disk is busy")
    return rows(start, stop)


def test_a_part_that_fails_once_is_tried_again(client, tmp_path):
    estimator = OVKRidge(KERNEL, 0.1, landmarks=20)
    found = fit(estimator, cut(flaky_rows, 3, directory=str(tmp_path)), client)
    assert_array_equal(found.dual_coef_, fit(estimator, cut(rows, 3)).dual_coef_)


def test_workers_that_do_not_leave_are_killed(monkeypatch):
    """The work is done, so a slow shutdown must not lose it."""
    distributed = pytest.importorskip("distributed")
    killed = []
    monkeypatch.setattr(os, "kill", lambda pid, number: killed.append((pid, number)))

    class Stuck:
        workers = {0: SimpleNamespace(pid=17), 1: SimpleNamespace(pid=None)}

        def __init__(self, **options):
            assert options["host"] == "127.0.0.1"

        def close(self):
            raise TimeoutError

    monkeypatch.setattr(distributed, "LocalCluster", Stuck)
    monkeypatch.setattr(distributed, "Client", nullcontext)
    with local_cluster(2) as cluster:
        assert isinstance(cluster, Stuck)
    assert killed == [(17, signal.SIGKILL)]


def broken():
    raise OSError("no such disk")


def spoilt(start, stop, place, value):
    chunk = rows(start, stop)
    chunk[place][:, 0] = value
    return chunk


@pytest.mark.parametrize(("place", "value"), [(0, np.nan), (0, np.inf), (1, np.inf)])
@pytest.mark.parametrize(
    "estimator", [OVKRidge(KERNEL, landmarks=5), PKAWV(KERNEL, features=Fourier(3), random_state=0)]
)
def test_a_part_with_bad_numbers_is_named(estimator, place, value):
    bad = partial(spoilt, 100, 200, place, value)
    with pytest.raises(PartitionError, match=r"part 1 \(.*\) failed: .*"):
        fit(estimator, [partial(rows, 0, 100), bad, partial(rows, 200, 300)])


@pytest.mark.parametrize("change", ["sparse", "object", "weights", "list"])
def test_a_part_whose_bad_numbers_are_hidden_is_named(change):
    def part(start, stop, bad):
        X, Y = rows(start, stop)
        X[3, 0] = np.nan if bad and change != "weights" else X[3, 0]
        kinds = {"sparse": sparse.csr_array, "object": lambda X: X.astype(object), "list": np.ndarray.tolist}
        weights = [np.full(len(X), np.nan if bad else 1.0)] if change == "weights" else []
        return (kinds.get(change, np.array)(X), Y, *weights)

    with pytest.raises(PartitionError, match=r"part 1 \(partial\) failed: .*NaN"):
        fit(OVKRidge(KERNEL, landmarks=5), [partial(part, 0, 100, False), partial(part, 100, 200, True)])


def test_a_part_without_rows_changes_nothing():
    parts = [partial(rows, start, stop) for start, stop in ((0, 100), (100, 100), (100, 200))]
    model = PKAWV(KERNEL, features=Fourier(3), random_state=0)
    found, expected = (fit(model, some).predict(table()[0]) for some in (parts, parts[::2]))
    assert_array_equal(found, expected)


def test_a_part_that_cannot_be_read_is_named(client, tmp_path):
    estimator = OVKRidge(KERNEL, landmarks=5)
    for where in (client, None):
        with pytest.raises(PartitionError, match=r"part 2 \(broken\) failed: no such disk"):
            fit(estimator, [*cut(rows, 2), broken], where)
    (tmp_path / "t.csv").write_text("a,b\n" + "1,2\n" * 50 + "x,3\n" + "1,2\n" * 9)
    with pytest.raises(PartitionError, match=r"part \d \(t.csv, bytes .*column 'a' .* has 'x'"):
        fit(estimator, split_files(tmp_path / "t.csv", size=60), targets="b")
    with pytest.raises(PartitionError, match=r"part 1 has .* of shape \(n,\), but part 0 has .* of shape \(n, 2\)"):
        fit(OVKRidge(Gaussian(1.0), landmarks=table()[0][:5]), [cut(rows, 2)[0], lambda: (np.ones((3, 2)), np.ones(3))])
    with pytest.raises(TypeError, match="return arrays from a function"):
        fit(estimator, [table()[0]])
    with pytest.raises(TypeError, match=r"client must be a distributed\.Client"):
        fit(estimator, cut(rows, 2), "tcp://127.0.0.1:1")
    for other in (OLOK(), IOKR(landmarks=5)):
        with pytest.raises(TypeError, match=f"whose sums add up, got {type(other).__name__}"):
            fit(other, cut(rows, 2))
    with pytest.raises(ValueError, match="requires landmarks"):
        fit(OVKRidge(), cut(rows, 2))
    with pytest.raises(FileNotFoundError, match="no file matches"):
        fit(estimator, str(tmp_path / "*.parquet"), targets="b")
    with pytest.raises(PartitionError, match=r"part 0 \(t.csv, .* or their columns as targets, out of 'a', 'b'"):
        fit(estimator, tmp_path / "t.csv")


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    directory = tmp_path_factory.mktemp("files")
    X, Y = table()
    lines = ["u,v,a,b", *(",".join(map(repr, row)) for row in np.hstack([X, Y]).tolist())]
    (directory / "t.csv").write_text("\n".join(lines))
    for i in range(2):
        some = slice(i * 300, (i + 1) * 300)
        columns = dict(zip("uvab", np.hstack([X, Y])[some].T, strict=True))
        parquet.write_table(pyarrow.table(columns), directory / f"{i}.parquet", row_group_size=80)
    return directory


def test_ranges_of_files_hold_every_row_once(files):
    X, Y = table()
    for size in (37, 1000, 10**6):
        parts = split_files(files / "t.csv", size=size)
        found = [chunk for part in parts for chunk in FilePartition(part, ["a", "b"]).chunks()]
        assert_array_equal(np.concatenate([x for x, _ in found]), X)
        assert_array_equal(np.concatenate([y for _, y in found]), Y)
    groups = split_files(str(files / "*.parquet"), size=1)
    assert [part.label for part in groups][:2] == ["0.parquet, row groups 0 to 1", "0.parquet, row groups 1 to 2"]
    assert len(groups) == 8
    assert len(split_files(str(files / "*.parquet"))) == 2
    found = [chunk for part in groups for chunk in FilePartition(part, ["a", "b"], ["u", "v"]).chunks()]
    assert_array_equal(np.concatenate([x for x, _ in found]), X)


def test_a_sample_of_text_comes_from_the_whole_range(tmp_path):
    (tmp_path / "t.csv").write_text("x,y\n" + "".join(f"{i},{i}\n" for i in range(200_000)))
    [part] = split_files(tmp_path / "t.csv")
    sample = FilePartition(part, "y").sample(400, seed=0)
    x = np.concatenate([X[:, 0] for X, _ in sample])
    assert len(x) == 400
    assert x.min() < 60_000
    assert x.max() > 140_000


def test_a_sample_of_many_chunks_has_no_more_rows_than_were_asked_for():
    part = GivenPartition(lambda: [rows(i, i + 10) for i in range(0, 60, 10)])
    for count in (5, 10, 25):
        X = np.concatenate([chunk[0] for chunk in part.sample(count, 0)])
        assert_array_equal(X, rows(0, count)[0])


def test_files_are_learned(client, files):
    X, Y = table()
    pattern, options = str(files / "*.parquet"), {"targets": ["a", "b"], "features": ["u", "v"]}
    model = fit(OVKRidge(KERNEL, 0.1, landmarks=20), split_files(pattern, size=1), client, **options)
    whole = OVKRidge(KERNEL, 0.1, landmarks=model.X_fit_).fit(X, Y)
    assert_allclose(model.predict(X), whole.predict(X), rtol=0, atol=1e-10)


def test_futures_are_parts(client):
    futures = [client.submit(rows, *ends, pure=False) for ends in ((0, 300), (300, N))]
    estimator = OVKRidge(KERNEL, 0.1, landmarks=table()[0][:20])
    assert_array_equal(fit(estimator, futures, client).dual_coef_, fit(estimator, cut(rows, 2)).dual_coef_)


@pytest.mark.parametrize("learner", [PKAWV(Gaussian(1.0)), OVKRidge(Gaussian(1.0), landmarks=10)])
def test_the_estimator_that_was_given_stays_as_it_was(learner):
    before = dict(vars(learner))
    fit(learner, cut(rows, 3))
    assert vars(learner) == before
