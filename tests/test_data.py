"""Rows of files: the same in every format, in little memory, and one sentence for whatever is no row."""

import gzip
import io
import json
import lzma
import os
import subprocess
import sys
import threading
import tracemalloc
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unmask import InputError, data
from unmask.data import formats, streams
from unmask.data.formats import Row

TEXTS = ["abc", " two  words ", 'a "quoted" one, with a comma', "Größe 字 🙂", "x" * 5000, "_", "1", "tab\tin it"]


def content(found):
    return [(row.prompt, row.answer, row.text, row.given) for row in found]


def texts(found):
    return [row.text for row in found]


def write(folder, ending, rows):
    """A file of texts in the format of its ending."""
    path = folder / f"rows{ending}"
    bare = ending.removesuffix(".gz").removesuffix(".xz")
    if bare == ".parquet":
        import pyarrow
        from pyarrow import parquet

        parquet.write_table(pyarrow.table({"other": list(range(len(rows))), "seq": rows}), path, row_group_size=3)
        return path
    out = io.StringIO()
    if bare in (".csv", ".tsv"):
        import csv

        table = csv.writer(out, delimiter="," if bare == ".csv" else "\t")
        table.writerows([["other", "seq"], *([number, text] for number, text in enumerate(rows))])
    elif bare == ".jsonl":
        out.write("".join(json.dumps({"id": 1, "text": text}) + "\n" for text in rows))
    elif bare == ".fasta":
        out.write("".join(f">{text[:5]}\n{text[:3]}\n\n{text[3:]}\n" for text in rows))
    else:
        out.write("".join(text + "\n" for text in rows))
    packed = {".gz": gzip.compress, ".xz": lzma.compress}.get(path.suffix, bytes)
    path.write_bytes(packed(out.getvalue().encode()))
    return path


def column(ending):
    return "seq" if ending.startswith((".csv", ".tsv", ".parquet")) else None


LINED = [".jsonl", ".txt", ".other", ".csv", ".tsv"]
ENDINGS = [each + packed for each in LINED for packed in ("", ".gz", ".xz")]


@pytest.mark.parametrize("ending", [*ENDINGS, ".parquet"])
def test_the_same_rows_in_every_format(tmp_path, ending):
    if ending == ".parquet":
        pytest.importorskip("pyarrow")
    found = list(data.rows(write(tmp_path, ending, TEXTS), column=column(ending)))
    assert texts(found) == TEXTS
    first = 2 if ending.startswith((".csv", ".tsv")) else 1
    assert [row.line for row in found] == list(range(first, first + len(TEXTS)))


# What a line can hold: no control characters, which end lines, nor blanks alone, which are no row.
written = st.text(st.characters(exclude_categories=["C", "Zl", "Zp"]), min_size=1).filter(str.strip)


@given(rows=st.lists(written, min_size=1, max_size=8), ending=st.sampled_from([*ENDINGS, ".parquet"]))
@settings(max_examples=60, deadline=None)
def test_any_rows_are_the_same_in_every_format(tmp_path_factory, rows, ending):
    if ending == ".parquet":
        pytest.importorskip("pyarrow")
    path = write(tmp_path_factory.mktemp("rows"), ending, rows)
    assert texts(data.rows(path, column=column(ending))) == rows
    if ending.startswith(".jsonl"):
        assert texts(data.rows(path, column="text")) == rows


@given(rows=st.lists(st.text("ACDEFghikl*-", min_size=1), min_size=1, max_size=8))
@settings(max_examples=40, deadline=None)
def test_records_of_fasta_are_their_lines_joined(tmp_path_factory, rows):
    folder = tmp_path_factory.mktemp("rows")
    for ending in (".fasta", ".fasta.gz", ".fasta.xz"):
        found = list(data.rows(write(folder, ending, rows)))
        assert texts(found) == rows
        assert [row.line for row in found] == [1 + 4 * number for number in range(len(rows))]


objects = st.one_of(
    st.fixed_dictionaries({"prompt": st.text(), "answer": st.text(min_size=1)}),
    st.fixed_dictionaries(
        {"text": st.text(min_size=1)},
        optional={"given": st.text(min_size=1) | st.lists(st.integers(0, 2**40)), "more": st.integers()},
    ),
)


@given(rows=st.lists(objects, min_size=1, max_size=8), ascii_only=st.booleans())
@settings(max_examples=60, deadline=None)
def test_objects_are_read_as_they_were_written(tmp_path_factory, rows, ascii_only):
    path = tmp_path_factory.mktemp("rows") / "rows.jsonl"
    lines = [json.dumps(row, ensure_ascii=ascii_only) for row in rows]
    path.write_bytes("\n".join(lines).encode())
    expected = [
        (
            row.get("prompt"),
            row.get("answer"),
            row.get("text"),
            tuple(g) if isinstance(g := row.get("given"), list) else g,
        )
        for row in rows
    ]
    assert content(data.rows(path)) == expected


def standard(monkeypatch, content):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))


@pytest.mark.parametrize("packed", [bytes, gzip.compress, lzma.compress])
@pytest.mark.parametrize("ending", [".jsonl", ".txt", ".csv", ".tsv", ".fasta"])
def test_standard_input_is_known_by_what_it_holds(tmp_path, monkeypatch, ending, packed):
    rows = ["ACDEF", "abc", "x"]
    path = write(tmp_path, ending, rows)
    standard(monkeypatch, packed(path.read_bytes()))
    found = list(data.rows("-", column=column(ending)))
    assert [(row.line, row.text) for row in found] == [
        (row.line, row.text) for row in data.rows(path, column=column(ending))
    ]
    assert found[0].where == f"line {found[0].line} of standard input"
    assert not sys.stdin.buffer.closed


def test_standard_input_of_a_process(tmp_path):
    code = "from unmask import data; print([row.text for row in data.rows('-')])"
    done = subprocess.run([sys.executable, "-c", code], input="\n\n>a\nAC\nD\n", capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("['ACD']\n", "")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no pipes with names")
def test_a_pipe_is_known_by_what_it_holds_and_by_its_name(tmp_path):
    for name, content, row in (("pipe", b'{"text": "a"}\n', "a"), ("pipe.txt", b">a\n", ">a")):
        os.mkfifo(tmp_path / name)
        writer = threading.Thread(target=(tmp_path / name).write_bytes, args=(content,))
        writer.start()
        assert texts(data.rows(tmp_path / name)) == [row]
        writer.join()


def test_windows_files_are_read_like_others(tmp_path):
    path = tmp_path / "rows.txt"
    path.write_bytes("\ufeffone\r\n\r\n  \r\ntwo \r\n".encode())
    assert [(row.line, row.text) for row in data.rows(path)] == [(1, "one"), (4, "two ")]
    path = tmp_path / "rows.csv"
    path.write_bytes('\ufeffseq,other\r\none,"a\r\nb"\r\n\r\ntwo,\r\n'.encode())
    assert [(row.line, row.text) for row in data.rows(path, column="seq")] == [(2, "one"), (5, "two")]


GOOD = '{"prompt": "a", "answer": "b"}'
EACH = "hold a prompt and its answer, or a text, in each line, but line 2 of 'F'"


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (
            '{"prompt": "a", "answer": "b"',
            "hold a JSON object in each line, but line 2 of 'F' is not one: expecting ',' d",
        ),
        ("abc", "hold a JSON object in each line, but line 2 of 'F' is not one: expecting value at character 1."),
        ("17", "hold a JSON object in each line, but line 2 of 'F' is 17."),
        (f"[{GOOD}]", "but line 2 of 'F' begins an array. To split an array of objects into lines, run: jq -c"),
        ("[", "but line 2 of 'F' begins an array."),
        ('{"a":' * 100_000, "hold a JSON object in each line, but line 2 of 'F' is not one."),
        (f'{{"text": {"1" * 5000}}}', "hold a JSON object in each line, but line 2 of 'F' is not one."),
        ("{}", f"{EACH} is an empty object."),
        ('{"text": null}', f"{EACH} has null for text."),
        ('{"id": 1, "body": "a"}', f"{EACH} has only id and body. Name the key of the text with 'column'."),
        ('{"answer": "b"}', f"{EACH} has only answer."),
        ('{"given": "a"}', f"{EACH} has only given."),
        ('{"prompt": "a"}', "have an answer to each prompt, but line 2 of 'F' has none."),
        ('{"prompt": "a", "answer": null}', "have an answer to each prompt, but line 2 of 'F' has none."),
        ('{"prompt": "a", "answer": ""}', "have something in each row, but the answer on line 2 of 'F' is empty."),
        ('{"text": ""}', "have something in each row, but the text on line 2 of 'F' is empty."),
        ('{"prompt": "a", "answer": 3}', "hold text in each row, but the answer on line 2 of 'F' is 3."),
        ('{"prompt": ["a"], "answer": "b"}', "hold text in each row, but the prompt on line 2 of 'F' is ['a']."),
        ('{"text": {"a": 1}}', "hold text in each row, but the text on line 2 of 'F' is {'a': 1}."),
        ('{"text": "a", "prompt": "b"}', f"{EACH} has prompt and text."),
        ('{"text": "a", "answer": "b"}', f"{EACH} has answer and text."),
        ('{"prompt": "a", "answer": "b", "given": [0]}', f"{EACH} has prompt, answer and given."),
        ('{"text": "a", "given": [-1]}', "hold, in 'given', a list of positions or the text with '_' for each token"),
        ('{"text": "a", "given": [true]}', "but line 2 of 'F' has [true]."),
        ('{"text": "a", "given": ""}', "but line 2 of 'F' has \"\"."),
        ('{"text": "a", "given": 0}', "but line 2 of 'F' has 0."),
        ('{"text": "\\ud800"}', "be valid Unicode, but the text on line 2 of 'F' has an unpaired surrogate."),
    ],
)
def test_a_bad_object_is_one_sentence_with_its_line(tmp_path, line, reason):
    file = tmp_path / "rows.jsonl"
    file.write_text(f"{GOOD}\n{line}\n{GOOD}\n")
    found = data.rows(file)
    assert next(found).prompt == "a"
    with pytest.raises(InputError) as caught:
        next(found)
    assert caught.value.argument == "data"
    assert reason.replace("'F'", f"'{file}'") in str(caught.value)


@pytest.mark.parametrize(
    ("name", "text", "asked", "reason"),
    [
        (
            "a.fasta",
            "ACD\n>a\n",
            None,
            "consist of records, each with a first line that begins with '>', but line 1 of 'F' comes",
        ),
        ("a.fa", ">a\nAC\n>b\n\n>c\nA", None, "have something in each row, but the text on line 3 of 'F' is empty."),
        ("a.faa", ">a\nAC\n", "x", "Argument 'column' must be left out, since 'F' has no columns."),
        ("a.txt", "AC\n", "x", "Argument 'column' must be left out, since 'F' has no columns."),
        ("a.csv", "a,b\n1,2\n", None, "Argument 'column' must be given, since 'F' has the columns a, b."),
        (
            "a.tsv",
            "a\tb\n1\t2\n",
            "c",
            "Argument 'column' must be the name of a column of 'F', not 'c'. Choose from a, b.",
        ),
        (
            "a.csv",
            "a,a\n1,2\n",
            "a",
            "Argument 'column' must be the name of one column, but 'F' has 'a' more than once.",
        ),
        ("a.csv", "a,a,a\n1,2,3\n", "a", "but 'F' has 'a' more than once."),
        ("a.csv", "a,b\n1,2\n1\n", "a", "have 2 cells in each line, like the first line, but line 3 of 'F' has 1."),
        ("a.csv", "a,b\n1,2\n,2\n", "a", "have something in each row, but the text on line 3 of 'F' is empty."),
        (
            "a.csv",
            'a,b\n1,2\n"1\n2',
            "a",
            "be a valid table, but the row that begins on line 3 of 'F' is not valid: unexpected end of data.",
        ),
        (
            "a.csv",
            'a\n"1\n' + "2\n" * 80_000,
            "a",
            "but the row that begins on line 2 of 'F' is not valid: field larger than",
        ),
        ("a.csv", "a,b\n", "a", "hold at least one row, but 'F' holds none."),
        (
            "a.jsonl",
            '{"text": "a"}\n',
            "b",
            "'column' must be the name of a key on line 1 of 'F', not 'b'. Choose from text.",
        ),
        ("a.jsonl", '{"b": null}\n', "b", "hold text in each row, but the text on line 1 of 'F' is missing."),
        ("a.txt", "", None, "hold at least one row, but 'F' holds none."),
        ("a.txt", "\ufeff", None, "hold at least one row, but 'F' holds none."),
        ("a.fasta", "\n\n", None, "hold at least one row, but 'F' holds none."),
        ("a.parquet", "abc", "a", "be an intact Parquet file, but 'F' is not."),
        (
            "a.parquet.gz",
            "abc",
            "a",
            "be a Parquet file, not 'F'. Parquet files are already compressed inside: decompress the file first.",
        ),
    ],
)
def test_a_bad_file_is_one_sentence(tmp_path, name, text, asked, reason):
    if ".parquet" in name:
        pytest.importorskip("pyarrow")
    file = tmp_path / name
    file.write_text(text)
    with pytest.raises(InputError) as caught:
        list(data.rows(file, column=asked))
    assert reason.replace("'F'", f"'{file}'") in str(caught.value)


def test_a_bad_cell_of_parquet_is_named_by_its_row(tmp_path):
    pytest.importorskip("pyarrow")
    with pytest.raises(InputError, match=r"but the text in row 5 of '.*' is missing"):
        list(data.rows(write(tmp_path, ".parquet", ["a", "b", "c", "d", None]), column="seq"))
    with pytest.raises(InputError, match=r"but the text in row 1 of '.*' is 3\."):
        list(data.rows(write(tmp_path, ".parquet", [3, 4]), column="seq"))
    with pytest.raises(InputError, match=r"must be given, since '.*' has the columns other, seq"):
        data.rows(write(tmp_path, ".parquet", ["a"]))


def test_parquet_cut_short_or_absent_is_one_sentence(tmp_path):
    pytest.importorskip("pyarrow")
    path = write(tmp_path, ".parquet", TEXTS)
    path.write_bytes(path.read_bytes()[:-20])
    for file in (path, tmp_path / "none.parquet", tmp_path):
        with pytest.raises(InputError):
            data.rows(file, column="seq")


def test_broken_json_at_line_a_million(tmp_path):
    path = tmp_path / "rows.jsonl"
    path.write_text(GOOD + "\n" * 999_999 + '{"prompt": \n')
    with pytest.raises(InputError, match=r"but line 1000000 of '.*rows.jsonl' is not one: expecting value"):
        list(data.rows(path))


@pytest.mark.parametrize(("ending", "pack"), [(".gz", gzip.compress), (".xz", lzma.compress)])
def test_half_of_a_packed_file_is_one_sentence(tmp_path, ending, pack):
    rng = np.random.default_rng(0)
    whole = pack("".join(f"{number}\n" for number in rng.integers(10**9, size=50_000)).encode())
    path = tmp_path / f"rows.txt{ending}"
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(
        InputError, match=r"^Argument 'data' must be a complete file, but '.*' breaks off after line \d+"
    ):
        list(data.rows(path))
    middle = len(whole) // 2
    path.write_bytes(whole[:middle] + b"\0" * 200 + whole[middle + 200 :])
    with pytest.raises(InputError, match=r"must be an intact file, but '.*' cannot be decompressed after line \d+\.$"):
        list(data.rows(path))
    path.write_bytes(b"plain text\n")
    with pytest.raises(InputError, match=r"must be an intact file, but '.*' cannot be decompressed\.$"):
        data.rows(path)


def test_what_is_no_text_is_one_sentence(tmp_path):
    path = tmp_path / "rows.txt"
    for content, number in (("abc".encode("utf-16"), 1), (b"abc\n\xff\n", 2), (b"\x89PNG\r\n", 1)):
        path.write_bytes(content)
        with pytest.raises(InputError, match=rf"must be text in UTF-8, but line {number} of '.*' is not\.$"):
            list(data.rows(path))


def test_a_line_without_an_end_does_not_fill_the_memory(tmp_path):
    path = tmp_path / "rows.txt.gz"
    with gzip.open(path, "wb", compresslevel=1) as file:
        file.write(b"short\n")
        for _ in range(64):
            file.write(b"x" * (1 << 20))
    tracemalloc.start()
    try:
        with pytest.raises(InputError, match=r"must have lines of at most 16 MiB, but line 2 of '.*' is longer\.$"):
            list(data.rows(path))
        assert tracemalloc.get_traced_memory()[1] < 3 * streams.LINE
    finally:
        tracemalloc.stop()


def test_a_record_without_an_end_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(formats, "LINE", 100)
    path = tmp_path / "a.fasta"
    path.write_text(">a\nAC\n>b\n" + "ACDE\n" * 30)
    with pytest.raises(
        InputError, match=r"records of at most 100 letters, but the record on line 3 of '.*' has more\.$"
    ):
        list(data.rows(path))


@pytest.mark.skipif(not Path("/dev/zero").is_char_device(), reason="this system has no such device")
def test_devices_and_folders_are_refused(tmp_path):
    with pytest.raises(InputError, match=r"must be a file of finite length, not the device '/dev/zero'\.$"):
        data.rows("/dev/zero")
    with pytest.raises(InputError, match="must hold at least one row, but '/dev/null' holds none"):
        data.rows("/dev/null")
    with open("/dev/zero", "rb") as zero:
        code = "from unmask import data; data.rows('-')"
        done = subprocess.run([sys.executable, "-c", code], stdin=zero, capture_output=True, text=True)
    assert done.stderr.splitlines()[-1] == (
        "unmask.InputError: Argument 'data' must be a file of finite length, not the device standard input."
    )
    with pytest.raises(InputError, match=r"must be a file, not the folder '.*'"):
        data.rows(tmp_path)
    with pytest.raises(InputError, match=r"must be the name of an existing file, not '.*'"):
        data.rows(tmp_path / "none.jsonl")
    with pytest.raises(InputError, match=r"must be a file that can be read, not 'a·b' \(embedded null"):
        data.rows("a\0b")
    with pytest.raises(InputError, match="must be the name of a file, not 3"):
        data.rows(3)


def test_a_closed_standard_input_is_one_sentence(monkeypatch):
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(InputError, match=r"must be a file that can be read, not standard input, which is closed\.$"):
        data.rows("-")


def test_prompts_need_no_answer_where_answers_are_to_be_written(tmp_path):
    path = tmp_path / "prompts.jsonl"
    path.write_text('{"prompt": "a"}\n{"prompt": "b", "answer": "c"}\n{"text": "d"}\n{"prompt": ""}\n')
    assert content(data.rows(path, write=True)) == [
        ("a", None, None, None),
        ("b", "c", None, None),
        (None, None, "d", None),
        ("", None, None, None),
    ]
    for ending in (".txt", ".csv", ".fasta"):
        found = list(data.rows(write_two(tmp_path, ending), column=column(ending), write=True))
        assert [row.prompt for row in found] == ["ACDE", "x"]
        assert [row.text for row in found] == [None, None]


def write_two(folder, ending):
    return write(folder, ending, ["ACDE", "x"])


def peak(path, asked):
    """The most memory that reading a file in chunks takes, and the rows that it has."""
    tracemalloc.start()
    try:
        count = sum(len(chunk) for chunk in data.chunks(data.rows(path, column=asked), 100))
        return tracemalloc.get_traced_memory()[1], count
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("ending", [".txt", ".jsonl.gz", ".csv", ".fasta", ".parquet"])
def test_memory_does_not_grow_with_the_file(tmp_path, ending):
    if ending == ".parquet":
        pytest.importorskip("pyarrow")
    few = write(tmp_path, ending, [f"text {number}" for number in range(5_000)])
    peak(few, column(ending))  # what is imported and kept at first use
    short, count = peak(few, column(ending))
    assert count == 5_000
    many = 200_000 if ending == ".txt" else 50_000
    long, count = peak(write(tmp_path, ending, [f"text {number}" for number in range(many)]), column(ending))
    assert count == many
    assert long < short + 100_000


def test_reading_needs_no_torch():
    code = (
        "import sys, unmask, unmask.data; unmask.data.rows, unmask.data.Row, unmask.data.encode, unmask.data.collect; "
        "print([name for name in ('torch', 'pyarrow', 'scipy', 'pandas') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_chunks_hold_everything_once():
    assert list(data.chunks(range(7), 3)) == [[0, 1, 2], [3, 4, 5], [6]]
    assert list(data.chunks([], 3)) == []
    assert next(data.chunks(iter(int, 1), 2)) == [0, 0]
    with pytest.raises(InputError, match="'size' must be at least 1, not 0"):
        data.chunks([1], 0)
    with pytest.raises(InputError, match="'values' must be iterable, not 3"):
        data.chunks(3, 1)


# What a model takes of rows. A stand-in for it has an alphabet, a mask and a length.


def model(codec=None, length=40):
    from unmask.models.text import Alphabet

    codec = codec or Alphabet("abcdefghijklmnopqrstuvwxyz ")
    mask = getattr(codec, "mask", codec.vocab)
    return SimpleNamespace(codec=codec, predictor=SimpleNamespace(mask=mask, vocab=codec.vocab), length=length)


def row(**parts):
    return Row("rows.jsonl", 7, **parts)


def shown(found, known):
    """The tokens as text, with capitals where something is to be filled."""
    pieces = [known.codec.decode([token]) if token != known.predictor.mask else "?" for token in found.tokens]
    return "".join(p.upper() if m else p for p, m in zip(pieces, found.masked, strict=True))


@pytest.mark.parametrize(
    ("parts", "answer", "expected"),
    [
        ({"text": "abc"}, None, "ABC"),
        ({"text": "the cat", "given": "the ___"}, None, "the CAT"),
        ({"text": "the cat", "given": (0, 6, 0)}, None, "tHE CAt"),
        ({"text": "the cat", "given": ()}, 5, "THE CAT"),
        ({"prompt": "the ", "answer": "cat"}, None, "the CAT"),
        ({"prompt": "the ", "answer": "cat"}, 9, "the CAT"),
        ({"prompt": "", "answer": "cat"}, None, "CAT"),
        ({"prompt": "the "}, 3, "the ???"),
        ({"prompt": ""}, 3, "???"),
        ({"prompt": "the _a_"}, 3, "the ?a?"),
    ],
)
def test_what_is_to_be_filled(parts, answer, expected):
    pytest.importorskip("torch")
    known = model()
    found = data.encode(known, row(**parts), answer=answer)
    assert shown(found, known) == expected
    assert found.first == 0


FITS = "Argument 'data' must fit the model, but line 7 of 'rows.jsonl' does not: its"


@pytest.mark.parametrize(
    ("parts", "answer", "reason"),
    [
        (
            {"text": "ab9"},
            None,
            f"{FITS} text must use only the 27 characters of the alphabet 'abcdefghijklmnopqrstuvwxyz '",
        ),
        ({"prompt": "ab", "answer": "9"}, None, f"{FITS} answer must use only the 27 characters"),
        ({"prompt": "a9", "answer": "b"}, None, f"{FITS} prompt must use only the 27 characters"),
        ({"prompt": "a_", "answer": "b"}, None, f"{FITS} prompt must use only the 27 characters"),
        ({"prompt": "a9"}, 3, f"{FITS} prompt must use only the 27 characters"),
        ({"text": "ab", "given": "9_"}, None, f"{FITS} text with gaps must use only the 27 characters"),
        ({"text": "ab", "given": "a__"}, None, "with gaps, but line 7 of 'rows.jsonl' has 2 and 3."),
        (
            {"text": "ab", "given": "b_"},
            None,
            "have the same tokens in a text and in its version with gaps, except at the gaps, but line 7 of "
            "'rows.jsonl' has 'b' in",
        ),
        (
            {"text": "ab", "given": "ab"},
            None,
            "have at least one token to fill in each row, but line 7 of 'rows.jsonl' has none.",
        ),
        ({"text": "ab", "given": (0, 1)}, None, "have at least one token to fill in each row"),
        ({"text": "ab", "given": (2,)}, None, f"{FITS} given position must be at most 1, not 2."),
        ({"text": "ab", "given": (-1,)}, None, f"{FITS} given position must be at least 0, not -1."),
        ({"prompt": "a"}, None, "have an answer to each prompt, but line 7 of 'rows.jsonl' has none."),
        ({}, None, "have a prompt or a text in each row, but line 7 of 'rows.jsonl' has neither."),
        ({"prompt": "a"}, 0, "Argument 'answer' must be at least 1, not 0."),
        ({"prompt": "a"}, 41, "Argument 'answer' must be at most 40, not 41."),
    ],
)
def test_a_row_that_does_not_fit_is_one_sentence(parts, answer, reason):
    pytest.importorskip("torch")
    with pytest.raises(InputError) as caught:
        data.encode(model(), row(**parts), answer=answer)
    assert reason in str(caught.value)


def test_a_stranger_s_codec_that_fails_is_one_sentence():
    pytest.importorskip("torch")
    from unmask.models.text import Codec

    class Strange(Codec):
        vocab = 3

        def encode(self, text):
            return np.array([{"a": 0, "b": 1, "c": 7}[letter] for letter in text])

        def decode(self, tokens):
            return "abc"

    with pytest.raises(InputError, match=f"^{FITS} text must contain only what the model can encode"):
        data.encode(model(Strange()), row(text="ax"))
    with pytest.raises(
        InputError, match=r"must contain only the 3 tokens of the model, but line 7 of 'rows.jsonl' has"
    ):
        data.encode(model(Strange()), row(text="ac"))
    with pytest.raises(InputError, match="'model' must have a chat template"):
        data.encode(model(Strange()), row(prompt="a", answer="b"), chat=True)


def pretrained(folder, *, chat=None, end=None):
    pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    import tiny
    from unmask.models.tokenizer import Pretrained

    tiny.tokenizer(folder, chat=chat)
    return Pretrained(transformers.AutoTokenizer.from_pretrained(folder), len(tiny.WORDS), 4, end)


def test_a_chat_model_is_given_messages(tmp_path):
    pytest.importorskip("torch")
    import tiny

    plain, talking = pretrained(tmp_path), pretrained(tmp_path, chat=tiny.CHAT, end=3)
    known = model(talking)
    found = data.encode(known, row(prompt="cat", answer="on a mat"))
    assert [tiny.WORDS[token] for token in found.tokens] == ["the", "cat", "sat", "on", "a", "mat", "[SEP]"]
    assert found.masked.tolist() == [False] * 3 + [True] * 4
    assert found.first == 3
    # The same without the template, and of a model that has none, which does not know an end either.
    bare = data.encode(known, row(prompt="cat", answer="on a mat"), chat=False)
    assert [tiny.WORDS[token] for token in bare.tokens] == ["cat", "on", "a", "mat", "[SEP]"]
    assert (bare.masked.tolist(), bare.first) == ([False] + [True] * 4, 0)
    assert data.encode(model(plain), row(prompt="cat", answer="on a mat")).tokens.tolist() == bare.tokens.tolist()[:-1]
    # To be answered: so many tokens after the message, in which `_` is a word like others.
    for message in ("cat", "_ cat"):
        found = data.encode(known, row(prompt=message), answer=5)
        assert found.tokens.tolist() == [*talking.chat(message), *[4] * 5]
        assert found.first == found.tokens.size - 5 == (~found.masked).sum()
    with pytest.raises(InputError, match="its prompt must contain only tokens of the model other than its mask token"):
        data.encode(known, row(prompt="zebra"), answer=5)


def test_prompts_and_texts_of_a_tokenizer(tmp_path):
    codec = pretrained(tmp_path)
    known = model(codec)
    whole = data.encode(known, row(text="the cats sat"))
    assert (whole.tokens.tolist(), whole.masked.all()) == ([5, 6, 8, 9], True)
    for gaps in ("the _ _ sat", "the [MASK][MASK] sat"):
        found = data.encode(known, row(text="the cats sat", given=gaps))
        assert found.tokens.tolist() == whole.tokens.tolist()
        assert found.masked.tolist() == [False, True, True, False]
    # A prompt that has its answer is given whole: `_` is a word, and special tokens are what they are.
    found = data.encode(known, row(prompt="[CLS] the _", answer="cat"))
    assert found.tokens.tolist() == [2, 5, 13, 6]
    assert found.masked.tolist() == [False, False, False, True]
    assert data.encode(known, row(prompt="[CLS] the _"), answer=3).tokens.tolist() == [2, 5, 4]
    for prompt in ("the zebra", "the [MASK]"):
        with pytest.raises(InputError, match=f"{FITS} prompt must contain only tokens of the model other than its m"):
            data.encode(known, row(prompt=prompt, answer="cat"))
    with pytest.raises(InputError, match=f"{FITS} answer must contain only ordinary tokens of the model, but it has"):
        data.encode(known, row(prompt="the", answer="[SEP]"))


def many(count, long=()):
    return [Row("a.txt", n + 1, text="x" * (50 if n in long else 1 + n % 20)) for n in range(count)]


def test_all_rows_are_collected_but_for_the_long_ones():
    pytest.importorskip("torch")
    found = data.collect(model(), many(30, long={3, 7})).required()
    kept = [n for n in range(30) if n not in (3, 7)]
    assert list(found.numbers) == kept
    assert found.sequences.lengths.tolist() == [1 + n % 20 for n in kept]
    assert found.sequences.counts.tolist() == found.sequences.lengths.tolist()
    assert (len(found), len(found.sequences), len(found.first), found.read, found.long) == (28, 28, 28, 30, 2)
    assert found.note == (
        "2 rows are longer than the model's maximum of 40 tokens and were skipped: the first is line 4 of 'a.txt', "
        "with 50 tokens."
    )
    assert data.collect(model(), many(3)).note == ""
    assert data.collect(model(), many(3), most=9).numbers == (0, 1, 2)


def test_nothing_left_is_one_sentence():
    pytest.importorskip("torch")
    with pytest.raises(InputError, match=r"^Argument 'data' must hold at least one row\.$"):
        data.collect(model(), []).required()
    with pytest.raises(InputError, match="'rows' must be iterable, not 3"):
        data.collect(model(), 3)
    must = r"must have a row of at most 40 tokens, the model's maximum, but "
    with pytest.raises(InputError, match=must + r"the only row, line 1 of 'a.txt', has 50\.$"):
        data.collect(model(), many(1, long={0})).required()
    with pytest.raises(InputError, match=must + r"line 1 of 'a.txt' has 50, and the others have too many as well\.$"):
        data.collect(model(), many(5, long=range(5)), most=2).required()


def test_an_answer_to_be_written_counts_for_the_length():
    pytest.importorskip("torch")
    rows = [Row("a.txt", n, prompt="x" * n) for n in (29, 30, 31)]
    found = data.collect(model(), rows, answer=10)
    assert (found.numbers, found.long, found.sequences.counts.tolist()) == ((0, 1), 1, [10, 10])


@given(st.integers(0, 40), st.integers(1, 20), st.integers(0, 2**64 - 1), st.sets(st.integers(0, 39)))
@settings(max_examples=60, deadline=None)
def test_fewer_rows_are_among_the_more_of_the_same_seed(count, most, seed, long):
    pytest.importorskip("torch")
    rows, known = many(count, long), model()
    fits = [n for n in range(count) if n not in long]
    less, more = (data.collect(known, iter(rows), most=size, rng=seed).numbers for size in (most, most + 1))
    assert set(less) <= set(more) <= set(fits)
    assert (len(less), len(more)) == (min(most, len(fits)), min(most + 1, len(fits)))
    assert list(more) == sorted(more)
    assert data.collect(known, rows, most=most, rng=seed).numbers == less


def test_every_row_that_fits_is_drawn_with_the_same_chance():
    """Pairs of 6 rows that fit, among 8: chi-square with 14 degrees of freedom, above 42.6 with probability 1e-4."""
    pytest.importorskip("torch")
    rows, known, met = many(8, long={1, 5}), model(), {}
    for seed in range(1500):
        pair = data.collect(known, rows, most=2, rng=seed).numbers
        met[pair] = met.get(pair, 0) + 1
    assert len(met) == 15
    assert sum((count - 100) ** 2 / 100 for count in met.values()) < 42.6


def test_few_of_many_rows_are_encoded(monkeypatch):
    """20 of 20,000: 20 (1 + ln 1000) = 158 on average, with a standard deviation of 11."""
    pytest.importorskip("torch")
    from unmask.data import collection

    met = []
    inner = collection.encode
    monkeypatch.setattr(collection, "encode", lambda *given, **more: met.append(1) or inner(*given, **more))
    found = data.collect(model(), many(20_000), most=20, rng=1)
    assert (len(found), found.read) == (20, 20_000)
    assert 100 < len(met) < 220


def test_rows_that_would_fill_the_memory_are_refused(monkeypatch):
    pytest.importorskip("torch")
    from unmask import _check

    monkeypatch.setattr(_check, "ROOM", 1000)
    said = r"'data' must have at most 1,000 tokens in all rows together.*with 'most', or"
    with pytest.raises(InputError, match=said):
        data.collect(model(), many(10_000))
    assert len(data.collect(model(), many(10_000), most=10)) == 10


def test_a_file_is_filled_some_rows_at_a_time(tmp_path):
    pytest.importorskip("torch")
    path = tmp_path / "rows.txt"
    path.write_text("".join(f"{'ab' * (1 + n % 30)}\n" for n in range(100)))
    whole = data.collect(model(), data.rows(path))
    parts = [data.collect(model(), chunk) for chunk in data.chunks(data.rows(path), 7)]
    assert [n + 7 * k for k, part in enumerate(parts) for n in part.numbers] == list(whole.numbers)
    assert sum(part.long for part in parts) == whole.long > 0
