import pytest

from brokers import NATSServer


@pytest.fixture(scope="session")
def server(tmp_path_factory):
    """A NATS server that accepts messages of 16 MB."""
    pytest.importorskip("nats")
    server = NATSServer(tmp_path_factory.mktemp("nats"), config="max_payload: 16MB\nmax_pending: 64MB\n")
    yield server
    server.kill()
