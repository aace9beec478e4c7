"""Loading a saved value returns an equal value, for every type."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from safetensors import safe_open
from safetensors.numpy import load_file
from scipy import sparse

from ovk.persistence import load, save
from persistence.toys import Kernel, Record, Ridge, Window, parts_of, same, trip

BITS = [np.random.PCG64, np.random.PCG64DXSM, np.random.MT19937, np.random.Philox, np.random.SFC64]
SPARSE = [sparse.csr_array, sparse.csr_matrix, sparse.csc_array, sparse.csc_matrix, sparse.coo_array,
          sparse.coo_matrix]  # fmt: skip


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return tmp_path_factory.mktemp("roundtrip") / "value.ovk"


SIMPLE = [
    None, True, False, 0, -1, 2**63 - 1, 2**63, -(2**63), -(2**63) - 1, 10**999, -(7**400),
    0.0, -0.0, 0.1, 5e-324, 1.7976931348623157e308, 1e22, float("inf"), float("-inf"), float("nan"),
    "", "é\0\n\"\\", "\ud800", b"", bytes(range(256)),
    np.float64(-0.0), np.float32("nan"), np.float16(1.5), np.int8(-3), np.uint64(2**64 - 1), np.bool_(True),
    np.str_("a\0"), np.str_(""), np.bytes_(b"a\0"), np.longlong(3),
    np.datetime64("2024-02-29T12", "ns"), np.datetime64("NaT"), np.timedelta64(-3, "D"),
]  # fmt: skip


@pytest.mark.parametrize("value", SIMPLE, ids=lambda value: type(value).__name__)
def test_simple_values(value, path):
    loaded = trip([value, value], path)
    expected = np.int64(3) if type(value) is np.longlong else value
    assert same(loaded, [expected, expected])


@pytest.mark.parametrize(
    "value",
    [
        [], (), {}, set(), frozenset(), [[]], ([], ()), [(1,), [2, (3.0,)]],
        {"b": 1, "a": 2}, {1: "x", "1": "y", (1, "z"): [1], None: 2, 2.5: 3, b"k": 4, 10**999: 5},
        {float("inf"): 1, np.int64(4): 2, frozenset({1, (2,)}): 3},
        {1, "a", (2, 3.5), None}, frozenset({b"x", 1}), {"a": {"tuple": [1]}, "tuple": {}},
    ],
    ids=lambda value: type(value).__name__,
)  # fmt: skip
def test_containers(value, path):
    assert same(trip(value, path), value)


BASE = np.arange(24).reshape(2, 3, 4)
ARRAYS = {
    **{f"dtype {code}": BASE.astype(code) for code in "?bhilqBHILQefd"},
    **{f"big-endian {code}": BASE.astype(f">{code}") for code in ("i2", "u8", "f4")},
    "0-d": np.array(3.5),
    "empty": np.empty((0, 3)),
    "empty, long": np.empty((2**40, 0), dtype=np.int8),
    "Fortran": np.asfortranarray(BASE[0] * 0.5),
    "Fortran, big-endian": np.asfortranarray(BASE.astype(">f8")),
    "strided": BASE[::-1, 1:, ::2],
    "transposed": BASE.transpose(1, 2, 0),
    "broadcast": np.broadcast_to(np.arange(3.0), (4, 3)),
    "signed zeros and nans": np.array([-0.0, 0.0, np.nan, -np.nan, np.inf]),
    "text": np.array([["a", "bcd"], ["", "\U0001f600é"]]),
    "text, big-endian": np.array(["a", "bc"], dtype=">U3"),
    "text, Fortran": np.asfortranarray(np.array([["a", "bcd", "e"], ["", "é", "f"]])),
    "bytes": np.array([b"a", b"bcd"]),
    "labels": np.array(["a", "bcd", "", "x\0"], dtype=object),
    "labels, 2-d": np.array([["a", "bcd"], ["", "x"]], dtype=object),
    "labels, empty": np.empty((0, 2), dtype=object),
    "mixed objects": np.array(["a", None, 1, 2.5, (1, 2)], dtype=object),
    "dates": np.array(["2024-01-01", "NaT", "1969-12-31"], dtype="M8[D]"),
    "instants": np.array(["2024-01-01T00:00:00.123456789"], dtype="M8[ns]"),
    "instants, big-endian": np.array(["2024-01-01"], dtype=">M8[us]"),
    "durations": np.array([[1], [-2]], dtype="m8[25s]"),
    "durations without unit": np.array([1, 2], dtype="m8"),
}


@pytest.mark.parametrize("name", ARRAYS)
def test_arrays(name, path):
    array = ARRAYS[name]
    loaded = trip(array, path)
    assert same(loaded, array.astype(array.dtype.newbyteorder("=")))
    assert loaded.flags.writeable
    assert loaded.dtype.isnative


def test_memory_order_is_kept(path):
    fortran, plain = trip((np.asfortranarray(BASE[0]), BASE[0].copy()), path)
    assert fortran.flags.f_contiguous
    assert not fortran.flags.c_contiguous
    assert plain.flags.c_contiguous


def test_memmap_becomes_an_array(path, tmp_path):
    mapped = np.memmap(tmp_path / "raw", dtype=float, mode="w+", shape=(3, 2))
    mapped[:] = 7.0
    assert same(trip(mapped, path), np.full((3, 2), 7.0))


def test_an_array_met_twice_is_stored_once(path):
    shared = np.arange(1000.0)
    first, second, other = trip([shared, shared, shared.copy()], path)
    assert same(first, shared)
    assert same(second, shared)
    assert same(other, shared)
    assert len(parts_of(path)[1]["arrays"]) == 2


def test_arrays_at_paths_that_read_alike(path):
    value = {"a": {1: np.zeros(1)}, "a'][1": np.ones(1), ("x" * 50,): np.zeros(2), ("x" * 51,): np.ones(2)}
    assert same(trip(value, path), value)


@pytest.mark.parametrize("kind", SPARSE)
@pytest.mark.parametrize("dtype", [np.float64, np.int8, bool])
def test_sparse(kind, dtype, path):
    dense = np.array([[0, 1, 0, 2], [0, 0, 0, 0], [3, 0, 0, 4]]).astype(dtype)
    matrix = kind(dense)
    loaded = trip(matrix, path)
    assert same(loaded, matrix)
    assert np.array_equal(loaded.toarray(), dense)


def test_sparse_as_it_lies_in_memory(path):
    unsorted = sparse.csr_array((np.array([1.0, 2.0, 5.0]), np.array([2, 0, 0]), np.array([0, 3, 3])), shape=(2, 3))
    assert same(trip(unsorted, path), unsorted)
    repeated = sparse.coo_matrix((np.array([1.0, 2.0]), (np.array([1, 1]), np.array([0, 0]))), shape=(2, 2))
    assert same(trip(repeated, path), repeated)
    empty = sparse.csc_array((0, 4))
    assert same(trip(empty, path), empty)
    line = sparse.coo_array(np.array([0.0, 2.0, 0.0]))
    assert same(trip(line, path), line)


@pytest.mark.parametrize("bits", BITS)
def test_generators_resume(bits, path):
    generator = np.random.Generator(bits(5))
    generator.integers(0, 9, 3, dtype=np.uint32)  # leaves half a word in the buffer
    loaded = trip(generator, path)
    assert same(loaded, generator)
    assert np.array_equal(loaded.standard_normal(700), generator.standard_normal(700))
    for child, expected in zip(loaded.spawn(2), generator.spawn(2), strict=True):
        assert np.array_equal(child.random(3), expected.random(3))


@pytest.mark.parametrize("seed", [None, [1, 2, 2**90], np.array([3, 4])])
def test_generators_keep_their_seed(seed, path):
    generator = np.random.default_rng(seed)
    generator.spawn(1)
    loaded = trip(generator, path)
    assert np.array_equal(loaded.spawn(1)[0].random(3), generator.spawn(1)[0].random(3))


@pytest.mark.parametrize("bits", BITS)
def test_random_states_resume(bits, path):
    random = np.random.RandomState(bits(5))
    random.standard_normal(3)  # keeps the second number of a pair
    loaded = trip(random, path)
    assert np.array_equal(loaded.standard_normal(700), random.standard_normal(700))


def test_random_state_from_a_seed(path):
    random = np.random.RandomState(3)
    assert np.array_equal(trip(random, path).random(5), random.random(5))


@pytest.mark.parametrize("name", ["labels", "é \u2028 \U0001f600", "x" * 300, "a/b", "\ud800"])
def test_the_safetensors_library_reads_our_files(name, path):
    values = {f"{kind}{name}": array for kind, array in ARRAYS.items() if "long" not in kind}
    save(values, path)
    stored = load_file(path)
    assert all(array.size or "empty" in key for key, array in stored.items())
    with safe_open(path, framework="np") as file:
        assert set(file.metadata()) == {"ovk.manifest", "ovk.blake2b"}
    numbers = next(array for key, array in stored.items() if "signed zeros" in key)
    assert same(numbers.copy(), ARRAYS["signed zeros and nans"])


def test_arrays_in_the_file_are_aligned(path):
    save(
        [np.zeros(3, np.int8), np.zeros(3), np.zeros(1, bool), np.zeros(3, np.float32), np.zeros((), "f2")],
        path,
    )
    header, _, data = parts_of(path)
    start = len(path.read_bytes()) - len(data)
    widths = {"I8": 1, "BOOL": 1, "F16": 2, "F32": 4, "F64": 8}
    for name, entry in header.items():
        if name != "__metadata__":
            assert (start + entry["data_offsets"][0]) % widths[entry["dtype"]] == 0


def test_the_same_model_gives_the_same_file(path, tmp_path):
    model = {"names": {"b", "a", "c"}, "weights": np.arange(3.0), "kernel": Kernel(2.0)}
    save(model, path)
    save(load(path), tmp_path / "again")
    assert path.read_bytes() == (tmp_path / "again").read_bytes()


def test_path_may_be_text_or_path_like(tmp_path):
    save(1, str(tmp_path / "no extension"))
    assert load(tmp_path / "no extension") == 1
    with pytest.raises(TypeError):
        save(1, 3)


SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.integers(-(2**200), 2**200)
    | st.floats()
    | st.text(st.characters())
    | st.binary(max_size=20)
)
DTYPES = (
    hnp.boolean_dtypes()
    | hnp.integer_dtypes(endianness="?")
    | hnp.unsigned_integer_dtypes(endianness="?")
    | hnp.floating_dtypes(sizes=(16, 32, 64), endianness="?")
    | hnp.unicode_string_dtypes(endianness="?", min_len=1)
    | hnp.byte_string_dtypes(min_len=1)
    | hnp.datetime64_dtypes(endianness="?")
    | hnp.timedelta64_dtypes(endianness="?")
)
NATIVE = hnp.arrays(DTYPES, hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4)).map(
    lambda array: array.astype(array.dtype.newbyteorder("="))
)
KEYS = st.recursive(SCALARS, lambda inner: st.tuples(inner) | st.tuples(inner, inner), max_leaves=3)


def nested(inner):
    return (
        st.lists(inner, max_size=4)
        | st.lists(inner, max_size=4).map(tuple)
        | st.dictionaries(KEYS, inner, max_size=4)
        | st.builds(Kernel, scale=inner, transforms=inner)
        | st.builds(Ridge, kernel=inner, labels=inner)
        | st.builds(Window, size=inner, step=inner)
        | st.builds(Record, values=inner)
    )


@settings(max_examples=150, deadline=None)
@given(st.recursive(SCALARS | NATIVE | st.frozensets(KEYS, max_size=3), nested, max_leaves=12))
def test_save_then_load_is_the_identity(path, value):
    assert same(trip(value, path), value)
