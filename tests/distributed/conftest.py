import pytest


@pytest.fixture(scope="session")
def client():
    """Two workers, processes with one thread each."""
    distributed = pytest.importorskip("distributed")
    cluster = distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, dashboard_address=":0", host="127.0.0.1", silence_logs=50
    )
    with cluster, distributed.Client(cluster) as client:
        yield client
