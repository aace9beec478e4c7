"""Runs the commands of the how-to page "Deploy a model" in order."""

import json
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from processes import PATIENCE, free_port, wait_until

pytestmark = pytest.mark.long

PAGE = Path(__file__).parents[3] / "docs" / "howto" / "in-service.md"


@pytest.mark.skipif(shutil.which("curl") is None, reason="needs curl")
def test_the_commands_of_the_page_run(tmp_path):
    blocks = re.findall(r"```sh\n(.*?)```", PAGE.read_text(encoding="utf-8"), flags=re.DOTALL)
    assert len(blocks) == 10
    shims = tmp_path / "bin"
    shims.mkdir()
    for name, words in {"ovk": f"exec {sys.executable} -m ovk", "python": f"exec {sys.executable}"}.items():
        (shims / name).write_text(f'#!/bin/sh\n{words} "$@"\n')
        (shims / name).chmod(0o755)
    script = "\n".join(f"echo '== {k}'\n{block}" for k, block in enumerate(blocks)).replace("8080", str(free_port()))
    # A busy test machine may need more than the minute on the page.
    script = script.replace("--retry 60", f"--retry {PATIENCE:.0f}")
    # Leave no server running after a failure.
    script = f"set -eu\nexport PATH={shims}:$PATH\ntrap 'kill -9 $(jobs -p) 2>/dev/null || true' EXIT\n{script}"
    found = subprocess.run(
        ["bash", "-c", script], cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE, stdin=subprocess.DEVNULL
    )
    assert found.returncode == 0, found.stdout + found.stderr
    parts = dict(re.findall(r"(?s)== (\d+)\n(.*?)(?=== \d|\Z)", found.stdout))
    assert '"ready":true' in parts["1"]
    assert '"kitchen lower"' in parts["2"]
    assert '"name":"lower"' in parts["3"]
    assert '"parameters":{"columns":"kitchen,laundry"}' in parts["3"]
    assert parts["4"].count('{"id":"monday 7:00","sequence":1,"rows":1}') == 2
    assert '{"id":"label of monday 8:00: kitchen","sequence":2,"rows":1,"outputs":["kitchen"]}' in parts["5"]
    assert '"sequence":3' in parts["5"]
    assert re.search(r"mean \[.*\]\nlower \[.*\]\nupper \[.*\]\n", parts["6"])
    assert "{'id': 'label of monday 9:00', 'sequence': 4, 'rows': 1}" in parts["6"]
    assert 'ovk_sequence{model="rooms"} 4.0' in parts["7"]
    assert '"event": "log replayed"' in found.stderr
    assert '"event": "stopped"' in found.stderr
    assert (tmp_path / "tokens").read_text().startswith("predict ")


def test_the_commands_of_the_container_start_check_and_stop_the_server(models, tmp_path):
    """The commands in the Dockerfile, with local paths instead of those of the container."""
    [file] = re.findall(r"```dockerfile\n(.*?)```", PAGE.read_text(encoding="utf-8"), flags=re.DOTALL)
    check, serve = (
        json.loads(line)
        for line in re.findall(r"^(?:HEALTHCHECK .* )?CMD (\[.*\])$", file.replace("\\\n", ""), flags=re.MULTILINE)
    )
    (tmp_path / "tokens").write_text("predict " + "p" * 20 + "\n")
    (tmp_path / "tokens").chmod(0o400)
    port = str(free_port())
    places = {
        "ovk": [sys.executable, "-m", "ovk"],
        "python": [sys.executable],
        "/rooms.ovk": [str(models / "table.ovk")],
        "/data": [str(tmp_path / "data")],
        "/run/tokens": [str(tmp_path / "tokens")],
    }

    def here(command):
        return [part.replace("8080", port) for word in command for part in places.get(word, [word])]

    def healthy():
        return subprocess.run(here(check), capture_output=True, timeout=PATIENCE).returncode == 0

    assert not healthy()
    with subprocess.Popen(here(serve), stderr=subprocess.PIPE, text=True) as server:
        try:
            wait_until(healthy, "health", server)
            server.send_signal(signal.SIGTERM)
            _, err = server.communicate(timeout=PATIENCE)
        finally:
            server.kill()
    assert server.returncode == 0
    assert [json.loads(line)["event"] for line in err.splitlines()][-1] == "stopped"
