"""The file that a test saves to. Helpers are not collected: a second import would register their classes again."""

import pytest

collect_ignore_glob = ["toys.py", "regenerate.py"]


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.ovk"
