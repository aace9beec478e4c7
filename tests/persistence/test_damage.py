"""Files that `save` did not write raise a clear error; they never load as something else or execute code."""

from __future__ import annotations

import json
import os
import pickle
import random
import struct
import time
import zipfile
from itertools import product

import numpy as np
import pytest
from safetensors.numpy import save_file
from scipy import sparse

from memory import peak_memory
from ovk._version import __version__
from ovk.persistence import (
    ChangedClassError,
    CorruptFileError,
    NewerFormatError,
    UnknownClassError,
    inspect,
    load,
    save,
)
from persistence.toys import Kernel, Ridge, Window, edited_manifests, forge, parts_of, same, write


def rich_model():
    """One of everything."""
    rng = np.random.default_rng(3)
    model = Ridge(Kernel(np.float32(2.0), [Window(3), (4, b"5")]), labels={"a": {1, 2}, 3: b"xyz"})
    model.fit(rng.standard_normal((3, 2)), np.asfortranarray(rng.standard_normal((3, 4))))
    model.rest_ = [
        2**80, float("inf"), True, None, "text", frozenset({1.5}), (1, 2),
        np.array(["ab", "c"]), np.array(["2024-01-01"], "M8[D]"), np.array([True, False]), np.array(1.5),
        sparse.csr_array(np.eye(2)), sparse.coo_matrix(np.eye(2)), np.random.RandomState(0),
        np.random.Generator(np.random.Philox(1)),
    ]  # fmt: skip
    return model


@pytest.fixture(scope="module")
def rich(tmp_path_factory):
    path = tmp_path_factory.mktemp("rich") / "model.ovk"
    save(rich_model(), path)
    assert same(load(path), rich_model())
    return path.read_bytes()


# Accidents.


def test_one_flipped_bit_anywhere_is_found(path):
    model = {"kernel": Kernel(0.1, ("é",)), "X": np.arange(6.0).reshape(2, 3), "b": np.array([True, False])}
    save(model, path)
    raw = path.read_bytes()
    for position in range(len(raw) * 8):
        damaged = bytearray(raw)
        damaged[position // 8] ^= 1 << position % 8
        path.write_bytes(damaged)
        with pytest.raises(CorruptFileError):
            load(path)


def test_flipped_bits_in_a_rich_file(rich, path):
    generator = random.Random(0)
    for _ in range(400):
        damaged = bytearray(rich)
        for _ in range(generator.choice([1, 1, 2, 8])):
            damaged[generator.randrange(len(rich))] ^= 1 << generator.randrange(8)
        if damaged == rich:
            continue
        path.write_bytes(damaged)
        with pytest.raises(CorruptFileError):
            load(path)


def test_cut_short_extended_or_shifted(rich, path):
    (length,) = struct.unpack("<Q", rich[:8])
    for end in [*range(12), 100, 8 + length - 1, 8 + length, 8 + length + 1, len(rich) - 9, len(rich) - 1]:
        path.write_bytes(rich[:end])
        with pytest.raises(CorruptFileError, match=str(path)):
            load(path)
    for damaged in (rich + b"\0", rich + rich, b"\0" + rich, rich[1:], rich[:200] + rich[208:]):
        path.write_bytes(damaged)
        with pytest.raises(CorruptFileError):
            load(path)


def test_blocks_of_zeros_and_swapped_blocks(rich, path):
    for start in range(0, len(rich) - 64, len(rich) // 40):
        damaged = rich[:start] + bytes(64) + rich[start + 64 :]
        if damaged != rich:
            path.write_bytes(damaged)
            with pytest.raises(CorruptFileError):
                load(path)


class Bomb:
    def __reduce__(self):
        return os.system, ("touch exploded",)


OTHER_FILES = {
    "empty": b"",
    "text": b"alpha = 0.1\n" * 50,
    "zeros": bytes(1000),
    "ones": b"\xff" * 1000,
    "json": json.dumps({"format": 1}).encode(),
    "length 2**60": struct.pack("<Q", 2**60) + b"{}",
    "length 2**63": struct.pack("<Q", 2**63) + b"{}",
    "length of everything": struct.pack("<Q", 2**64 - 1) + b"{}",
    "no header": struct.pack("<Q", 0),
    "list": struct.pack("<Q", 8) + b"[1,2,3] ",
    "empty header": struct.pack("<Q", 2) + b"{}",
    "not ASCII": struct.pack("<Q", 6) + '{"é'.encode() + b'"}',
    "deep": struct.pack("<Q", 200_000) + b"[" * 200_000,
    "deep objects": struct.pack("<Q", 500_000) + b'{"a":' * 100_000,
    "long number": struct.pack("<Q", 10_010) + b'{"a":' + b"1" * 10_004 + b"}",
    "constant": struct.pack("<Q", 12) + b'{"a":NaN}   ',
    "metadata": struct.pack("<Q", 20) + b'{"__metadata__": 1} ',
    "metadata in a list": struct.pack("<Q", 26) + b'{"__metadata__": ["ovk"]} ',
}


@pytest.mark.parametrize("name", OTHER_FILES)
@pytest.mark.parametrize("read", [load, inspect])
def test_other_files(name, read, path):
    path.write_bytes(OTHER_FILES[name])
    with pytest.raises(CorruptFileError, match=r"not written by ovk\.save|is not a model of ovk"):
        read(path)


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_pickles_are_not_unpickled(protocol, path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path.write_bytes(pickle.dumps(Bomb(), protocol))
    with pytest.raises(CorruptFileError):
        load(path)
    np.save(tmp_path / "bomb.npy", np.array([Bomb()], dtype=object), allow_pickle=True)
    with pytest.raises(CorruptFileError):
        load(tmp_path / "bomb.npy")
    assert not (tmp_path / "exploded").exists()


def test_zip_and_plain_safetensors(path):
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("model", "x" * 100)
    with pytest.raises(CorruptFileError):
        load(path)
    save_file({"x": np.zeros(3)}, path)
    with pytest.raises(CorruptFileError, match="no ovk manifest"):
        load(path)


@pytest.mark.parametrize("read", [load, inspect])
def test_no_regular_file(read, tmp_path):
    with pytest.raises(FileNotFoundError):
        read(tmp_path / "absent.ovk")
    with pytest.raises(IsADirectoryError):
        read(tmp_path)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(CorruptFileError, match="pipe"):
        read(tmp_path / "pipe")


@pytest.mark.skipif(not os.path.exists("/dev/zero"), reason="no /dev/zero here")
def test_devices():
    with pytest.raises(CorruptFileError, match="device"):
        load("/dev/zero")


# Intent: the digests fit.


def test_a_newer_format(path):
    save(Kernel(), path)
    forge(path, lambda manifest, header: manifest.update({"format": 2, "ovk": "9.1"}))
    for read in (load, inspect):
        with pytest.raises(NewerFormatError, match=rf"newer ovk \(9\.1.*this is ovk {__version__}.*upgrade"):
            read(path)


@pytest.mark.parametrize("number", [0, -1, "1", 1.0, True, None])
def test_a_format_that_never_was(number, path):
    save(Kernel(), path)
    forge(path, lambda manifest, header: manifest.update({"format": number}))
    with pytest.raises(CorruptFileError):
        load(path)


TREES = {
    "unknown tag": {"pickle": "gASVAAAA"},
    "two tags": {"tuple": [], "set": []},
    "no tag": {},
    "nested unknown": [1, {"tuple": [{"eval": "1+1"}]}],
    "missing array": {"array": "absent"},
    "array by number": {"array": 0},
    "array by list": {"array": ["x"]},
    "objects of a wrong number": {"array": {"shape": [2, 2], "items": [1]}},
    "objects of a huge shape": {"array": {"shape": [2**40], "items": []}},
    "objects of a negative shape": {"array": {"shape": [-1, -1], "items": [1]}},
    "objects of an absurd empty shape": {"array": {"shape": [2**62, 2**62, 0], "items": []}},
    "long tuple": {"tuple": 3},
    "tuple of text": {"tuple": "abc"},
    "dict of pairs": {"dict": [[1, 2], [1, 3]]},
    "dict of triples": {"dict": [[1, 2, 3]]},
    "dict with a list as key": {"dict": [[[], 1]]},
    "set of lists": {"set": [[]]},
    "set with repeats": {"set": [1, 1]},
    "int of words": {"int": "0xzz"},
    "int with underscores": {"int": "0x1_000"},
    "float of words": {"float": "infinity"},
    "float of a list": {"float": []},
    "int of thousands of digits": {"int": "0x1" + "0" * 831},
    "complex": {"complex": [1.0, 2.0]},
    "bytes": {"bytes": "not base64!"},
    "scalar of wrong size": {"scalar": {"<f8": "00"}},
    "scalar of two numbers": {"scalar": {"<f8": "00" * 16}},
    "scalar of letters by their dtype": {"scalar": {"<U2": "00" * 8}},
    "scalar of wrong text": {"scalar": {"<f8": "zz"}},
    "scalar object": {"scalar": {"|O": "0000000000000000"}},
    "scalar big-endian": {"scalar": {">f8": "0000000000000000"}},
    "scalar boolean of 7": {"scalar": {"|b1": "07"}},
    "scalar record": {"scalar": {"i4,f8": "00"}},
    "scalar nested": {"scalar": {"(1000000000,)f8": "00"}},
    "scalar of zero seconds": {"scalar": {"<M8[0s]": "0000000000000000"}},
    "keys of one hash": {"dict": [[{"int": hex(i * (2**61 - 1))}, 0] for i in range(5, 106)]},
    "keys of one hash, tuples": {"dict": [[{"tuple": list(one)}, 0] for one in product((-1, -2), repeat=7)]},
    "elements of one hash": {"set": [{"int": hex(i * (2**61 - 1))} for i in range(5, 106)]},
    "object without entries": {"object": {}},
    "object of a number": {"object": 1},
    "object of an unhashable class": {"object": {"class": [], "parameters": {}, "state": {}}},
    "abstract class": {"object": {"class": "kernels.ScalarKernel", "parameters": {}, "state": {}}},
    "sparse of lists": {"sparse": {"kind": "csr_array", "shape": [1, 1], "data": [], "indices": [], "indptr": []}},
    "sparse of nothing": {"sparse": {"kind": "csr_array", "shape": [1, 1]}},
    "sparse lil": {"sparse": {"kind": "lil_array", "shape": [1, 1]}},
    "generator of a number": {"generator": 0},
    "generator of nothing": {"generator": {}},
    "generator of a class": {"generator": {"state": {"dict": [["bit_generator", "os"]]}, "seed": None}},
    "deep lists": json.loads("[" * 101 + "]" * 101),
}


@pytest.mark.parametrize("name", TREES)
def test_trees_that_make_no_sense(name, path):
    save(1, path)
    forge(path, lambda manifest, header: manifest.update({"value": TREES[name]}))
    with pytest.raises(CorruptFileError):
        load(path)


@pytest.mark.parametrize("number", ["1e999", "-1e999", "9" * 4000, str(2**63), "1" + "0" * 4000 + ".0", "1e2", "0.10"])
@pytest.mark.parametrize("read", [load, inspect])
def test_numbers_that_are_never_written(number, read, path):
    write(path, {}, f'{{"format":1,"ovk":"0.1.0","value":[{number}],"arrays":{{}}}}')
    with pytest.raises(CorruptFileError, match="the number"):
        read(path)


def test_numbers_that_are_written(path):
    numbers = [2**63 - 1, -(2**63), 0.1, 1e300, -0.0, 5e-324, 2**80, float("inf")]
    save(numbers, path)
    assert same(load(path), numbers)


def test_a_manifest_nested_too_deeply(path):
    deep = "[" * 100_000 + "]" * 100_000
    write(path, {}, f'{{"format":1,"ovk":"0.1.0","value":{deep},"arrays":{{}}}}')
    with pytest.raises(CorruptFileError, match="deep"):
        load(path)


def test_more_lists_than_the_file_is_large(path):
    lists = ",".join(["[]"] * 3_000_000)
    write(path, {}, f'{{"format":1,"ovk":"0.1.0","value":[{lists}],"arrays":{{}}}}')
    for read in (load, inspect):

        def refused(read=read):
            with pytest.raises(CorruptFileError, match="too many lists and objects for a file of"):
                read(path)

        limit = 8 * path.stat().st_size
        assert peak_memory(refused, limit) < limit
    header = f'{{"__metadata__":[{lists}]}}'.encode()
    path.write_bytes(struct.pack("<Q", len(header)) + header)
    with pytest.raises(CorruptFileError, match="too many lists and objects for a file of"):
        load(path)


@pytest.mark.parametrize("end", ['"', "\\", "[" * 400_000, '\\"' * 400_000])
def test_strings_that_do_not_end(end, path):
    header = ('{"a":"' + '\\"[' * 400_000 + end).encode()
    path.write_bytes(struct.pack("<Q", len(header)) + header)
    with pytest.raises(CorruptFileError, match="not valid JSON"):
        load(path)


def test_many_keys_of_one_hash_do_not_take_long(path):
    keys = [[{"int": hex((i + 5) * (2**61 - 1))}, 0] for i in range(20_000)]
    save(1, path)
    forge(path, lambda manifest, header: manifest.update({"value": {"dict": keys}}))
    started = time.process_time()
    with pytest.raises(CorruptFileError, match="keys with the same hash"):
        load(path)
    assert time.process_time() - started < 2.0


def test_names_that_stand_twice(path):
    for manifest in (
        '{"format":1,"ovk":"0.1.0","value":1,"value":2,"arrays":{}}',
        '{"format":1,"ovk":"0.1.0","value":{"tuple":[],"tuple":[1]},"arrays":{}}',
    ):
        write(path, {}, manifest)
        with pytest.raises(CorruptFileError, match="twice"):
            load(path)


def test_entries_of_the_manifest(path):
    for edit in (
        lambda manifest: manifest.pop("value"),
        lambda manifest: manifest.pop("arrays"),
        lambda manifest: manifest.update({"extra": 1}),
        lambda manifest: manifest.update({"arrays": []}),
        lambda manifest: manifest.update({"ovk": 1}),
    ):
        save(1, path)
        forge(path, lambda manifest, header, edit=edit: edit(manifest))
        with pytest.raises(CorruptFileError):
            load(path)


def test_arrays_that_nothing_refers_to(path):
    save([np.zeros(3), np.ones(2)], path)
    forge(path, lambda manifest, header: manifest["value"].pop())
    for read in (load, inspect):
        with pytest.raises(CorruptFileError, match="unused arrays"):
            read(path)


def test_a_header_that_disagrees_with_the_manifest(path):
    save(np.zeros((2, 3)), path)
    for edit in (
        lambda entry: entry.update({"dtype": "I64"}),
        lambda entry: entry.update({"shape": [3, 2]}),
        lambda entry: entry.update({"data_offsets": [8, 56]}),
        lambda entry: entry.update({"extra": 0}),
    ):
        save(np.zeros((2, 3)), path)
        forge(path, lambda manifest, header, edit=edit: edit(header["ndarray"]))
        with pytest.raises(CorruptFileError, match="header"):
            load(path)


SPECS = {
    "huge": {"shape": [2**50]},
    "huge product": {"shape": [2**40, 2**40]},
    "overflow": {"shape": [2**63, 2]},
    "negative": {"shape": [-1, -6]},
    "float": {"shape": [6.0]},
    "boolean": {"shape": [True, 6]},
    "no list": {"shape": 6},
    "wide text": {"dtype": "<U536870911", "shape": [1]},
    "object": {"dtype": "|O"},
    "record": {"dtype": "f8,f8", "shape": [3]},
    "big-endian": {"dtype": ">f8"},
    "void": {"dtype": "|V8"},
    "long double": {"dtype": "<f16", "shape": [3]},
    "order": {"order": "K"},
    "extra": {"extra": 1},
    "digest": {"blake2b": None},
}


def respecify(manifest, header, spec):
    """Put a false description into the manifest and the header that follows from it."""
    entry = manifest["arrays"]["ndarray"]
    entry.update(spec)
    if isinstance(entry["shape"], list):
        header["ndarray"]["shape"] = entry["shape"]
        size = 8
        for side in entry["shape"]:
            size *= side
        header["ndarray"]["data_offsets"] = [0, size]


@pytest.mark.parametrize("name", SPECS)
def test_descriptions_are_checked_before_anything_is_allocated(name, path):
    save(np.zeros(6), path)
    forge(path, lambda manifest, header: respecify(manifest, header, SPECS[name]))

    def refused():
        with pytest.raises(CorruptFileError):
            load(path)

    assert peak_memory(refused, 200_000) < 200_000


def test_absurd_empty_arrays(path):
    for shape in ([2**62, 2**62, 0], [2**70, 0], [0] * 200):
        save(np.zeros(0), path)
        forge(path, lambda manifest, header, s=shape: respecify(manifest, header, {"shape": s}))
        with pytest.raises(CorruptFileError, match=r"shape|the number"):
            load(path)


def redigest(path, data):
    """Give the only array of a file other bytes, with a digest that fits."""
    from hashlib import blake2b

    header, manifest, _ = parts_of(path)
    (entry,) = manifest["arrays"].values()
    entry["blake2b"] = blake2b(data, digest_size=16).hexdigest()
    write(path, header, json.dumps(manifest, separators=(",", ":")), data)


def test_booleans_and_characters_that_do_not_exist(path):
    save(np.array([True, False]), path)
    redigest(path, b"\x01\x02")
    with pytest.raises(CorruptFileError, match="boolean"):
        load(path)
    save(np.array(["a"]), path)
    redigest(path, struct.pack("<I", 0x110000))
    with pytest.raises(CorruptFileError, match="character"):
        load(path)


@pytest.mark.parametrize("index", [-1, 3, 2**31 - 1, -(2**31)])
@pytest.mark.parametrize("kind", [sparse.csr_array, sparse.csc_matrix, sparse.coo_array, sparse.coo_matrix])
def test_sparse_indices_out_of_range(index, kind, path):
    matrix = kind(np.eye(3))
    part = matrix.coords[0] if matrix.format == "coo" else matrix.indices
    part[1] = index
    save(matrix, path)
    with pytest.raises(CorruptFileError):
        load(path)


def test_sparse_pointers_out_of_range(path):
    matrix = sparse.csr_array(np.eye(3))
    matrix.indptr[1] = 2**30
    save(matrix, path)
    with pytest.raises(CorruptFileError):
        load(path)


@pytest.mark.parametrize("bits", [np.random.MT19937, np.random.Philox])
@pytest.mark.parametrize("position", [-1, 625, 2**31 - 1, 1.5])
def test_random_states_that_point_outside(bits, position, path):
    def edit(manifest, header):
        state = dict(map(tuple, manifest["value"]["generator"]["state"]["dict"]))
        inner = dict(map(tuple, state["state"]["dict"]))
        if bits is np.random.MT19937:
            inner["pos"] = position
            state["state"]["dict"] = [list(pair) for pair in inner.items()]
        else:
            state["buffer_pos"] = position
        manifest["value"]["generator"]["state"]["dict"] = [list(pair) for pair in state.items()]

    save(np.random.Generator(bits(1)), path)
    forge(path, lambda manifest, header: None)
    load(path)
    forge(path, edit)
    with pytest.raises(CorruptFileError, match="position"):
        load(path)


@pytest.mark.parametrize("number", [-1, 1, True])
def test_a_reference_to_a_generator_that_comes_later_or_counts_from_the_end(number, path):
    generator = np.random.default_rng(0)
    save([generator, generator], path)
    forge(path, lambda manifest, header: manifest["value"][1].update({"generator": number}))
    with pytest.raises(CorruptFileError):
        load(path)


def test_a_seed_with_a_huge_pool(path):
    save(np.random.default_rng(0), path)

    def edit(manifest, header):
        pairs = manifest["value"]["generator"]["seed"]["dict"]
        next(pair for pair in pairs if pair[0] == "pool_size")[1] = 2**40

    forge(path, edit)
    with pytest.raises(CorruptFileError, match="pool"):
        load(path)


def test_random_edits_of_the_manifest_with_digests_that_fit(rich, path):
    path.write_bytes(rich)
    loaded = 0
    for edited in edited_manifests(parts_of(path)[1], 600, random.Random(1)):
        path.write_bytes(rich)
        header, _, data = parts_of(path)
        write(path, header, json.dumps(edited, separators=(",", ":")), data)
        try:
            load(path)
            loaded += 1
        except (CorruptFileError, UnknownClassError, ChangedClassError, NewerFormatError):
            pass
    assert 0 < loaded < 300  # some edits are legal: another number, another string


def test_reading_takes_no_more_memory_than_the_arrays(path):
    array = np.arange(2_000_000.0)
    save(array, path)
    limit = 1.2 * array.nbytes
    assert peak_memory(lambda: load(path), limit) < limit


def test_writing_takes_no_copy_of_the_arrays(path):
    model = [np.arange(1_000_000.0), np.asfortranarray(np.ones((1000, 500))), np.ones(10, "f4")]
    assert peak_memory(lambda: save(model, path), 1_000_000) < 1_000_000


def test_nothing_in_the_package_can_run_a_file():
    import ovk.persistence

    directory = os.path.dirname(ovk.persistence.__file__)
    for name in os.listdir(directory):
        if name.endswith(".py"):
            with open(os.path.join(directory, name)) as file:
                source = file.read()
            for word in (
                "import pickle",
                "importlib",
                "__import__",
                "eval(",
                "exec(",
                "import_module",
                "allow_pickle",
            ):
                assert word not in source, (name, word)
