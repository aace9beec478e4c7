"""One of every kind of value that format 1 knows."""

import numpy as np
from scipy import sparse

from persistence.toys import Kernel, Record, Ridge, Window


def make():
    generator = np.random.Generator(np.random.PCG64(7))
    generator.integers(0, 9, 3, dtype=np.uint32)
    random = np.random.RandomState(7)
    random.standard_normal(1)
    base = np.arange(6).reshape(2, 3)
    keys = {1: "a", "1": "b", (1, 2): "c"}
    return {
        "plain": [None, True, 3, -(2**70), 0.1, -0.0, float("inf"), "é\0\ud800", b"\0\xff"],
        "containers": ((1, [2]), keys, {1, "x"}, frozenset({2.5})),
        "numbers": [base.astype(code) for code in "?bhiqBHIQefd"],
        "layouts": [np.asfortranarray(base * 0.5), np.array(2.5), np.empty((0, 2))],
        "text": [np.array(["ab", "é"]), np.array([b"ab"]), np.array(["x0", None], dtype=object)],
        "times": [np.array(["2024-02-29", "NaT"], "M8[D]"), np.array([3], "m8[25s]")],
        "scalars": [np.float32(0.1), np.int64(-3), np.bool_(True), np.str_("s"),
                    np.bytes_(b"b"), np.datetime64("2024-01-01T12", "h")],
        "sparse": [kind(base) for kind in (sparse.csr_array, sparse.csr_matrix, sparse.csc_array,
                                           sparse.csc_matrix, sparse.coo_array, sparse.coo_matrix)],
        "random": [generator, random, generator, random, *(np.random.Generator(kind(3)) for kind in (
            np.random.MT19937, np.random.Philox, np.random.SFC64, np.random.PCG64DXSM))],
        "objects": [Kernel(2.0, ("a",)), Window(3), Record(np.arange(2), "note")],
        "estimator": Ridge(Kernel(0.5), lambda_=0.1).fit(base * 1.0, base * 2.0),
    }  # fmt: skip
