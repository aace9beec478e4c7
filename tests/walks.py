"""Which files of the library a call passes through: the walks of `docs/architecture.md`.

Run as ``python tests/walks.py`` it writes the four walks into that page.
"""

import sys
import tempfile
from pathlib import Path

import numpy as np

import ovk
from ovk.kernels import Gaussian
from ovk.operators import MixedEffect

HOME = Path(ovk.__file__).parent


def files_of(call):
    """The files of the library whose functions run during ``call()``, in the order in which they are first entered."""
    found = {}

    def watch(frame, event, argument):
        if event == "call":
            code = frame.f_code
            # Bodies of modules and classes run while something is imported, not while something is computed.
            if code.co_name != "<module>" and code.co_flags & 0x2 and code.co_filename.startswith(str(HOME)):
                found.setdefault(Path(code.co_filename).relative_to(HOME).as_posix())

    sys.setprofile(watch)
    try:
        call()
    finally:
        sys.setprofile(None)
    return list(found)


def _data(n=60, d=3, missing=0.2):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, 2))
    Y = np.stack([np.sin(X[:, 0] + q) for q in range(d)], axis=1)
    Y[rng.random(Y.shape) < missing] = np.nan
    return X, Y


def ridge_with_missing_outputs():
    X, Y = _data()
    model = ovk.OVKRidge(Gaussian(1.0) * MixedEffect(0.5), alpha=0.1)
    return lambda: model.fit(X, Y)


def chunk_of_olok():
    X, Y = _data(missing=0.0)
    model = ovk.OLOK(Gaussian(1.0) * MixedEffect(0.5)).partial_fit(X, Y)
    return lambda: model.partial_fit(X, Y)


def block_of_a_file():
    """A block in the middle of ``ovk stream FILE``: read, prepared, predicted, learned and counted."""
    from ovk.app.sessions import Session, Settings
    from ovk.app.tables import open_records

    X, Y = _data(1400, d=2, missing=0.1)
    path = Path(tempfile.mkdtemp()) / "rows.csv"
    lines = ["x,z,a,b"]
    for x, y in zip(X, Y, strict=True):
        lines.append(",".join("" if np.isnan(v) else repr(float(v)) for v in (*x, *y)))
    path.write_text("\n".join(lines) + "\n")
    records = open_records(path)
    _, blocks = Session.start(records, Settings(["a", "b"], warm_up=400, block=200))
    blocks = iter(blocks)
    next(blocks)

    def block():
        with records:
            next(blocks)

    return block


def okvar():
    series = np.cumsum(np.random.default_rng(0).standard_normal((30, 3)), axis=0)
    model = ovk.OKVAR()
    return lambda: model.fit(series)


WALKS = {
    "`OVKRidge.fit` with missing outputs": ridge_with_missing_outputs,
    "a chunk of `OLOK`": chunk_of_olok,
    "a block of `ovk stream`": block_of_a_file,
    "`OKVAR.fit`": okvar,
}
PAGE = Path(__file__).parents[1] / "docs" / "architecture.md"
START, END = "<!-- walks: python tests/walks.py -->\n", "<!-- end of walks -->\n"


def walks():
    """The walks as a table in Markdown."""
    lines = ["| call | files in which a function runs, in order |", "|---|---|"]
    for name, prepare in WALKS.items():
        files = files_of(prepare())
        lines.append(f"| {name} | **{len(files)}**: {', '.join(f'`{file}`' for file in files)} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    before, rest = PAGE.read_text(encoding="utf-8").split(START)
    _, after = rest.split(END)
    PAGE.write_text(before + START + walks() + END + after, encoding="utf-8")
    print(walks())
