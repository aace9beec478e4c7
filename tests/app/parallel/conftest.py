import pytest

from ovk.app.parallel.engines import local_cluster


@pytest.fixture(scope="session")
def client():
    """Two workers, processes with one thread each."""
    pytest.importorskip("distributed")
    with local_cluster(2) as client:
        yield client
