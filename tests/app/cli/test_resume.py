"""A resumed model requires its own file, predictions and settings."""

import json
import re

import pytest

from household import series
from ovk.app.sessions import Session, Settings, load_session
from ovk.app.tables import open_records

ASK = [
    *("--targets", "a,b", "--lags", "1,2,3", "--time", "Date,Time", "--model", "olok"),
    *("--warm-up", "100", "--block", "50", "--checkpoint", "200"),
]


def contents(directory):
    return {path.name: path.read_bytes() for path in directory.iterdir()}


@pytest.fixture
def two(ovk, tmp_path):
    """Two models of two files, each with its predictions."""
    for name, seed in (("one", 0), ("two", 1)):
        path = series(tmp_path / f"{name}.csv", 700, seed=seed)
        model, parts = tmp_path / f"{name}.ovk", tmp_path / f"{name}-parts"
        assert ovk("stream", path, *ASK, "--resume", model, "--predictions", parts)[0] == 0
    return tmp_path


def test_a_mistyped_model_does_not_change_other_predictions(ovk, two):
    before = contents(two / "one-parts"), (two / "two.ovk").read_bytes()
    assert len(before[0]) == 5
    for path, more in (
        ("two.csv", ["--resume", two / "two.ovk"]),
        ("one.csv", ["--resume", two / "two.ovk"]),
        ("one.csv", ["--continue-with", two / "two.ovk"]),
        ("one.csv", [*ASK, "--resume", two / "oen.ovk"]),
        ("two.csv", [*ASK, "--resume", two / "oen.ovk"]),
        ("one.csv", [*ASK, "--save", two / "new.ovk"]),
    ):
        code, _, err = ovk("stream", two / path, *more, "--predictions", two / "one-parts")
        assert code == 2, (path, more)
        assert re.search("one-parts (already )?contains", err)
        assert (contents(two / "one-parts"), (two / "two.ovk").read_bytes()) == before
    assert not (two / "oen.ovk").exists()
    assert not (two / "new.ovk").exists()


def test_a_single_part_is_not_taken_for_a_leftover(ovk, tmp_path):
    """A model with the same settings and rows has the same identifier, but another file name."""
    path, parts = series(tmp_path / "t.csv", 250), tmp_path / "parts"
    assert ovk("stream", path, *ASK, "--resume", tmp_path / "m.ovk", "--predictions", parts)[0] == 0
    (parts / "part-000001.csv").unlink()
    before = contents(parts)
    code, _, err = ovk("stream", path, *ASK, "--resume", tmp_path / "n.ovk", "--predictions", parts)
    assert code == 2
    assert "already contains predictions" in err
    assert str(tmp_path / "m.ovk") in err
    assert contents(parts) == before


def test_an_older_copy_of_a_model_does_not_remove_later_predictions(ovk, tmp_path):
    path, model, parts = series(tmp_path / "t.csv", 900), tmp_path / "m.ovk", tmp_path / "parts"
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    path.write_text("".join(lines[:301]), encoding="utf-8")
    assert ovk("stream", path, *ASK, "--resume", model, "--predictions", parts)[0] == 0
    (tmp_path / "old.ovk").write_bytes(model.read_bytes())
    path.write_text("".join(lines), encoding="utf-8")
    assert ovk("stream", path, *ASK, "--resume", model, "--predictions", parts)[0] == 0
    before = contents(parts)
    code, _, err = ovk("stream", path, "--resume", tmp_path / "old.ovk", "--predictions", parts)
    assert code == 2
    assert "more files than the model has written" in err
    assert contents(parts) == before
    # Another directory works.
    assert ovk("stream", path, "--resume", tmp_path / "old.ovk", "--predictions", tmp_path / "new")[0] == 0
    assert (tmp_path / "old.ovk").read_bytes() == model.read_bytes() or load_session(
        tmp_path / "old.ovk"
    ).prediction_lines == 0


def test_a_missing_incomplete_part(ovk, tmp_path):
    path, model, parts = series(tmp_path / "t.csv", 500), tmp_path / "m.ovk", tmp_path / "parts"
    assert ovk("stream", path, *ASK, "--resume", model, "--predictions", parts)[0] == 0
    assert load_session(model).prediction_lines == 100
    part = parts / "part-000002.csv"
    text = part.read_text(encoding="utf-8")
    part.write_text(text[: len(text) // 2], encoding="utf-8")
    before = contents(parts)
    code, _, err = ovk("stream", path, "--resume", model, "--predictions", parts)
    assert code == 2
    assert "does not contain the 100 predictions" in err
    assert contents(parts) == before


def test_the_digest_covers_all_rows_and_the_header(ovk, tmp_path):
    path, model = series(tmp_path / "t.csv", 500), tmp_path / "m.ovk"
    assert ovk("stream", path, *ASK, "--save", model)[0] == 0
    before, text = model.read_bytes(), path.read_bytes().decode()
    lines = text.splitlines(keepends=True)
    for name, changed in {
        "first row": [lines[0], lines[1].replace("16/12", "17/12"), *lines[2:]],
        "a row": [*lines[:250], lines[250].replace(",", ",9", 1), *lines[251:]],
        "two rows in another order": [*lines[:100], lines[101], lines[100], *lines[102:]],
        "the name of a column": [lines[0].replace("word", "Word"), *lines[1:]],
    }.items():
        path.write_bytes("".join(changed).encode())
        code, _, err = ovk("stream", path, "--resume", model)
        assert code == 3, name
        assert "not the file" in err or "no column" in err
        assert model.read_bytes() == before
    # The last line may be completed later, and the file may be compressed in between.
    import gzip

    packed = tmp_path / "t.csv.gz"
    packed.write_bytes(gzip.compress(text.rstrip("\r\n").encode()))
    assert ovk("stream", packed, "--resume", model)[0] == 0
    assert model.read_bytes() == before


@pytest.mark.parametrize("form", ["csv", "jsonl", "parquet"])
def test_the_digest_does_not_depend_on_the_size_of_the_batches(tmp_path, form):
    rows = [{"x": i / 7, "n": i, "w": "é" if i % 3 else None, "y": None if i % 5 == 0 else i} for i in range(100)]
    path = tmp_path / f"t.{form}"
    if form == "parquet":
        arrow = pytest.importorskip("pyarrow")
        from pyarrow import parquet

        parquet.write_table(arrow.Table.from_pylist(rows), path, row_group_size=17)
    elif form == "jsonl":
        path.write_text("\n" + "\n\n".join(map(json.dumps, rows)), encoding="utf-8")
    else:
        cells = [",".join('""' if v is None else f'"{v}\n"' for v in row.values()) for row in rows]
        path.write_text("x,n,w,y\r\n" + "\r\n".join(cells), encoding="utf-8", newline="")

    def digests(sizes):
        with open_records(path) as records:
            found = {records.offset: records.digest()}
            for size in sizes:
                next(records.batches(size))
                found[records.offset] = records.digest()
        return found

    by_one = digests([1] * 60)
    assert len(set(by_one.values())) == 61 if form != "jsonl" else 31
    for sizes in ([60], [7, 13, 40], [50, 10]):
        found = digests(sizes)
        assert found == {offset: by_one[offset] for offset in found}


def test_options_that_a_resumed_model_would_ignore_are_rejected(ovk, tmp_path):
    path, model = series(tmp_path / "t.csv", 300), tmp_path / "m.ovk"
    assert ovk("stream", path, *ASK, "--save", model)[0] == 0
    before = model.read_bytes()
    for option, value in (
        ("--lags", "7"),
        ("--features", "x"),
        ("--time", "Date"),
        ("--model", "pkawv"),
        ("--kernel", "linear"),
        ("--coupling", "0.5"),
        ("--warm-up", "50"),
        ("--block", "77"),
        ("--checkpoint", "123"),
        ("--targets", "a"),
    ):
        for how in ("--resume", "--continue-with"):
            code, _, err = ovk("stream", path, how, model, option, value)
            assert code == 2, option
            assert f"omit {option}" in err or option == "--targets"
            assert option in err
            assert model.read_bytes() == before
    # Options that agree with the settings of the model are accepted.
    assert ovk("stream", path, "--resume", model, "--lags", "1,2,3", "--model", "olok")[0] == 0
    assert ovk("stream", path, "--resume", model, *ASK)[0] == 0


def test_a_model_continues_with_another_file(ovk, tmp_path):
    """A log that is rotated at the end of a block gives bit-identical results to the whole log, including lags."""
    path = series(tmp_path / "t.csv", 900)
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    old, new = tmp_path / "old.csv", tmp_path / "new.csv"
    old.write_text("".join(lines[:501]), encoding="utf-8")
    new.write_text("".join([lines[0], *lines[501:]]), encoding="utf-8")
    whole, model, parts = tmp_path / "whole.ovk", tmp_path / "m.ovk", tmp_path / "parts"
    assert ovk("stream", path, *ASK, "--save", whole, "--predictions", tmp_path / "whole")[0] == 0
    assert ovk("stream", old, *ASK, "--save", model, "--predictions", parts)[0] == 0
    first = contents(parts)
    code, out, _ = ovk("stream", new, "--continue-with", model, "--predictions", parts)
    assert code == 0
    assert "400 rows read after 500 of earlier files; learning took" in out
    session, undivided = load_session(model), load_session(whole)
    assert (session.offset, session.earlier, session.evaluator.n_rows) == (400, 500, 900)
    assert (session.result().mse == undivided.result().mse).all()
    # The predictions of the old file do not change, and rows of the new one are counted from 1.
    assert all((parts / name).read_bytes() == text for name, text in first.items())

    def predicted(directory):
        texts = [p.read_text(encoding="utf-8").splitlines()[1:] for p in sorted(directory.glob("part-*"))]
        return [line.split(",", 1) for text in texts for line in text]

    together, apart = predicted(tmp_path / "whole"), predicted(parts)
    assert [row[1] for row in apart] == [row[1] for row in together]
    assert [int(row[0]) for row in apart] == [*range(101, 501), *range(1, 401)]
    # The same command learns no row twice, also when the file has grown.
    before = model.read_bytes()
    code, out, _ = ovk("stream", new, "--continue-with", model)
    assert code == 0
    assert "no new rows in this run" in out
    assert model.read_bytes() == before
    with new.open("a", encoding="utf-8") as file:
        file.write(lines[-1])
    assert ovk("stream", new, "--continue-with", model)[0] == 0
    assert load_session(model).offset == 401
    assert ovk("stream", new, "--resume", model)[0] == 0


def test_files_that_a_model_cannot_continue_with(ovk, tmp_path):
    path, model = series(tmp_path / "t.csv", 300), tmp_path / "m.ovk"
    assert ovk("stream", path, *ASK, "--save", model)[0] == 0
    before, other = model.read_bytes(), tmp_path / "other.csv"
    other.write_text("Date,Time,x,b\n16/12/2006,17:24:00,1,2\n", encoding="utf-8")
    code, _, err = ovk("stream", other, "--continue-with", model)
    assert code == 3
    assert "there are no columns 'word', 'a' in" in err
    other.write_text("Date,Time,word,x,a,b\n", encoding="utf-8")
    code, _, err = ovk("stream", other, "--continue-with", model)
    assert code == 3
    assert "no rows yet" in err
    code, _, err = ovk("stream", path, "--continue-with", tmp_path / "none.ovk")
    assert code == 2
    assert "does not exist" in err
    code, _, err = ovk("stream", path, "--continue-with", model, "--resume", model)
    assert code == 2
    assert model.read_bytes() == before


def test_blocks_of_the_next_file_begin_at_multiples_of_their_size(tmp_path):
    """Also if the first file is shorter than a block."""
    short, long = series(tmp_path / "short.csv", 60), series(tmp_path / "long.csv", 300, seed=1)
    with open_records(short) as records:
        run = Session.start(records, Settings(["a", "b"], lags=[1], warm_up=20, block=100))
        assert [len(run.learn_block(batch).rows) for batch in iter(run.read, None)] == [40]
    session = run.session
    with open_records(long) as records:
        run = session.continue_with(records)
        assert [len(run.learn_block(batch).rows) for batch in iter(run.read, None)] == [100, 100, 100]
    assert session.head[0] == 100


def test_parquet_parts_are_those_of_an_uninterrupted_run(ovk, tmp_path):
    """Parquet has the same rows as CSV; an interrupted run writes the same bytes, whichever file was incomplete."""
    parquet = pytest.importorskip("pyarrow.parquet")
    path = series(tmp_path / "t.csv", 700)
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    for name, more in (("text", []), ("whole", ["--parquet"])):
        code, _, _ = ovk(
            "stream", path, *ASK, "--save", tmp_path / f"{name}.ovk", "--predictions", tmp_path / name, *more
        )
        assert code == 0
    table = parquet.read_table(tmp_path / "whole" / "part-000000.parquet")
    header, *_, last = (tmp_path / "text" / "part-000000.csv").read_text(encoding="utf-8").splitlines()
    assert table.column_names == header.split(",")
    assert [f"{value:.7g}" for value in list(table.to_pylist()[-1].values())[2:5]] == last.split(",")[2:5]
    growing = tmp_path / "growing.csv"
    again = ["--resume", tmp_path / "m.ovk", "--predictions", tmp_path / "parts", "--parquet"]
    # Files have 200 rows, blocks 50: the third file is incomplete, and its numbers are bit-identical.
    for rows in (450, 700):
        growing.write_text("".join(lines[: rows + 1]), encoding="utf-8")
        assert ovk("stream", growing, *(ASK if rows == 450 else []), *again)[0] == 0
    whole, parts = contents(tmp_path / "whole"), contents(tmp_path / "parts")
    assert sorted(whole) == sorted(parts)
    assert all(whole[name] == parts[name] for name in whole if name.endswith(".parquet"))


def test_parts_in_the_other_format_are_rejected(ovk, two):
    before = contents(two / "one-parts")
    for more, said in ((["--parquet"], "omit --parquet"), ([], "")):
        code, _, err = ovk(
            "stream", two / "one.csv", "--resume", two / "one.ovk", "--predictions", two / "one-parts", *more
        )
        assert code == (2 if more else 0)
        assert said in err
        assert contents(two / "one-parts") == before
    code, _, err = ovk("stream", two / "one.csv", *ASK, "--parquet", "--predictions", "-")
    assert code == 2
    assert "--parquet requires a directory" in err
