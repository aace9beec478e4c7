"""Which files of ovk a call passes through: the walks of `docs/architecture.md`.

Run as ``python tests/walks.py`` it writes the four walks into that page.
"""

import contextlib
import io
import sys
import tempfile
import threading
import warnings
from pathlib import Path

import numpy as np

import ovk

HOME = Path(ovk.__file__).parent


def files_of(call):
    """The files of ovk whose functions run during ``call()``, in all threads, in the order they are entered."""
    found = {}

    def watch(frame, event, argument):
        if event == "call":
            code = frame.f_code
            # Bodies of modules and classes run while something is imported, not while something is computed.
            if code.co_name != "<module>" and code.co_flags & 0x2 and code.co_filename.startswith(str(HOME)):
                found.setdefault(Path(code.co_filename).relative_to(HOME).as_posix())

    threading.setprofile(watch)
    sys.setprofile(watch)
    try:
        call()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return list(found)


def _data(n=60, d=3, missing=0.2):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, 2))
    Y = np.stack([np.sin(X[:, 0] + q) for q in range(d)], axis=1)
    Y[rng.random(Y.shape) < missing] = np.nan
    return X, Y


def ridge_with_missing_outputs(directory):
    X, Y = _data()
    return lambda: ovk.OVKRidgeCV().fit(X, Y)


def chunk_of_autostream(directory):
    X, Y = _data(400)
    return lambda: ovk.AutoStream().partial_fit(X, Y)


def stream_of_a_file(directory):
    import pyarrow  # noqa: F401  (short files are read with it only where it is imported already)

    from ovk.app.cli import main

    X, Y = _data(1400, d=2, missing=0.1)
    lines = ["x,z,a,b"]
    for x, y in zip(X, Y, strict=True):
        lines.append(",".join("" if np.isnan(v) else repr(float(v)) for v in (*x, *y)))
    table = directory / "rows.csv"
    table.write_text("\n".join(lines) + "\n")
    runs = iter("12")

    def run():
        own = directory / next(runs)
        own.mkdir()
        sys.argv = ["ovk", "stream", str(table), "--targets", "a,b"]
        sys.argv += ["--save", str(own / "model.ovk"), "--predictions", str(own / "predictions")]
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            try:
                code = main()
            except SystemExit as end:
                code = end.code
        assert not code

    return run


def learn_request(directory):
    """A service that starts, learns one request and stops."""
    from ovk.app.serve import create_app

    with warnings.catch_warnings():
        # It would rather have a successor of httpx.
        warnings.simplefilter("ignore")
        from starlette.testclient import TestClient

    X, Y = _data(100, missing=0.0)
    ovk.save(ovk.AutoStream().partial_fit(X, Y), directory / "model.ovk")
    runs = iter("12")

    def run():
        app = create_app([directory / "model.ovk"], data=directory / next(runs))
        with TestClient(app, base_url="http://localhost", client=("127.0.0.1", 50000)) as client:
            reply = client.post("/v2/models/model/learn", json={"rows": X[:2].tolist(), "targets": Y[:2].tolist()})
            assert reply.status_code == 202, reply.text

    return run


#: Call and the most files that it may pass through.
WALKS = {
    "`OVKRidgeCV().fit(X, Y)` with missing outputs": (ridge_with_missing_outputs, 20),
    "`AutoStream().partial_fit(X, Y)`": (chunk_of_autostream, 12),
    "`ovk stream FILE --save --predictions`": (stream_of_a_file, 40),
    "a service: start, one `/learn`, stop": (learn_request, 30),
}
PAGE = Path(__file__).parents[1] / "docs" / "architecture.md"
START, END = "<!-- walks: python tests/walks.py -->\n", "<!-- end of walks -->\n"


def walks():
    """Files of each walk. A call runs once before it is watched: what is imported on the way is loaded then."""
    found = {}
    for name, (prepare, _) in WALKS.items():
        with tempfile.TemporaryDirectory() as directory:
            call = prepare(Path(directory))
            call()
            found[name] = files_of(call)
    return found


def as_table(found):
    """The walks as a table in Markdown."""
    lines = ["| call | files in which a function runs, in order |", "|---|---|"]
    for name, files in found.items():
        lines.append(f"| {name} | **{len(files)}**: {', '.join(f'`{file}`' for file in files)} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    before, rest = PAGE.read_text(encoding="utf-8").split(START)
    _, after = rest.split(END)
    table = as_table(walks())
    PAGE.write_text(before + START + table + END + after, encoding="utf-8")
    print(table)
