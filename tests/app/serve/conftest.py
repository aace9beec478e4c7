"""Models to serve, and clients."""

import warnings

import numpy as np
import pytest
from benchmarks.service_process import ServerProcess

import ovk
from ovk import PKAWV, OLOKClassifier, OVKRidge
from ovk.app.serve import Limits, create_app
from ovk.app.sessions import Settings, fit_table, learn
from ovk.app.tables import open_records
from ovk.kernels import Gaussian
from processes import PATIENCE
from serving_rows import rows, table

with warnings.catch_warnings():
    # Starlette warns that it prefers a successor of httpx.
    warnings.simplefilter("ignore")
    from starlette.testclient import TestClient


@pytest.fixture(scope="session")
def models(tmp_path_factory):
    """A directory with point.ovk and wide.ovk (PKAWV), table.ovk (session), labels.ovk (classifier), and two that
    predict only: ridge.ovk (estimator) and fitted.ovk (table)."""
    directory = tmp_path_factory.mktemp("models")
    X, Y = rows(150)
    ovk.save(PKAWV(Gaussian(1.0)).fit(X, Y), directory / "point.ovk")
    ovk.save(PKAWV(Gaussian(2.0), alpha=10.0).fit(X, Y), directory / "wide.ovk")
    ovk.save(OVKRidge(Gaussian(1.0), alpha=0.1).fit(X, Y), directory / "ridge.ovk")
    labels = np.where(X[:, 0] > 0, "up", "down")
    ovk.save(OLOKClassifier(Gaussian(1.0)).fit(X, labels), directory / "labels.ovk")
    path = directory / "table.csv"
    lines = [f"{word},{x!r},{a!r},{b!r}" for word, x, a, b in table(200)]
    path.write_text("word,x,a,b\n" + "\n".join(lines) + "\n")
    with open_records(path) as records:
        learn(records, Settings(["a", "b"], lags=[1], warm_up=100), save_to=directory / "table.ovk")
    with open_records(path) as records:
        ovk.save(fit_table(records, Settings(["a", "b"])), directory / "fitted.ovk")
    return directory


class Clients:
    """Makes clients of applications in this process."""

    def __init__(self, models):
        self.models, self.opened = models, []

    def __call__(self, *names, address="127.0.0.1", base="http://localhost", limits=None, **options):
        allowed = Limits(**{"seconds": PATIENCE, **(limits or {})})
        app = create_app([self.models / f"{name}.ovk" for name in names], limits=allowed, **options)
        client = TestClient(app, base_url=base, client=(address, 50000), raise_server_exceptions=False)
        client.__enter__()
        self.opened.append(client)
        return client

    def close(self, client):
        """Stop the application as SIGTERM would."""
        self.opened.remove(client)
        client.__exit__(None, None, None)


@pytest.fixture
def client_of(models):
    """Makes clients; all of them are closed at the end."""
    clients = Clients(models)
    yield clients
    for client in list(clients.opened):
        clients.close(client)


@pytest.fixture(scope="session")
def server(models, tmp_path_factory):
    """A server process with two models and a shadow, which must stop in good order at the end."""
    data = tmp_path_factory.mktemp("data")
    arguments = [models / "point.ovk", models / "table.ovk", "--data", data, "--shadow", f"point={models / 'wide.ovk'}"]
    with ServerProcess([*arguments, "--timeout", PATIENCE]) as running:
        yield running
        assert running.terminate() == 0
        assert [line["event"] for line in running.lines][-1] == "stopped"
        assert not running.other
        assert ovk.load(data / "table" / "checkpoint.ovk").sequence == 0
