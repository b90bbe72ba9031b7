"""Curves and gauges in files: what is read, what is refused and with which words."""

import json
import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unmask import _files
from unmask.information.files import read_curve, read_gauge

LOSS = [1.5, 1.0, 0.25]


@pytest.mark.parametrize(
    "text",
    [
        "[1.5, 1, 0.25]",
        '  {"loss": [1.5, 1.0, 0.25], "model": "mine"}\n',
        "1.5\n1\n0.25\n",
        "loss\n1.5\n1\n0.25",
        "\n1.5\n\n1\n  0.25  \n",
        "n,loss\n0,1.5\n1,1\n2,0.25\n",
        "0,1.5\r\n1,1\r\n2,2.5e-1\r\n",
        "2, 0.25\n0, 1.5\n1, 1\n",
        "\ufeffn,loss\n0,1.5\n1,1\n2,0.25\n",
    ],
)
def test_the_same_curve_in_every_format(tmp_path, text):
    file = tmp_path / "curve"
    file.write_text(text, encoding="utf-8")
    for length in (None, 3):
        reading = read_curve(file, length=length)
        assert reading.curve.loss.tolist() == LOSS
        assert reading.change == 0.0


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "must be a file of numbers, but '{file}' is empty."),
        (" \n\n", "is empty"),
        ("[]", "must have at least one number, but '{file}' has none."),
        ("loss\n", "must have at least one number"),
        ("[1, 0.5", "must be valid JSON, but '{file}' has an error on line 1: "),
        ('{"curve": [1]}', "must have the key \"loss\", but '{file}' does not."),
        ('{"loss": 3}', "must be a list of numbers"),
        ("[1, true]", "must hold finite numbers, but '{file}' has true at position 2."),
        ('[1, "0.5"]', 'has "0.5" at position 2.'),
        ("[1, NaN]", "has NaN at position 2."),
        (f"[1, 1{'0' * 400}]", "has something else at position 2."),
        ("[[1, 0.5]]", "has [1, 0.5] at position 1."),
        ("[" * 100_000, "must be"),
        ("1\nhalf\n0", "must hold finite numbers, but line 2 of '{file}' has 'half'."),
        ("nan\n1\n0", "line 1 of '{file}' has 'nan'."),
        ("1\ninf\n0", "line 2 of '{file}' has 'inf'."),
        ("1,0.5,0.2", "must have one number per line or two columns n,loss, but line 1 of '{file}' has 3 columns."),
        ("0,1\n1,0.5\n0.2", "line 3 of '{file}' has 1 column."),
        ("0,1\n2,0.5\n3,0.1", "must have every number from 0 to 3 in column n, but 1 is missing from '{file}'."),
        ("0,1\n8,0.5", "must have every number from 0 to 8 in column n, but 1 and 6 more are missing from '{file}'."),
        ("1,1\n2,0.5", "must have every number from 0 to 2 in column n, but 0 is missing"),
        ("0,1\n0,0.5", "must have each number only once in column n, but '{file}' has 0 twice."),
        ("0.5,1\n1,0.5", "must have whole numbers of at least 0 in column n, but '{file}' has 0.5."),
        ("-1,1\n0,0.5", "but '{file}' has -1."),
        ("0,1\n1e300,0.5", "must have whole numbers of at least 0 in column n, but '{file}' has 1e+300."),
        ('"', "but line 1 of '{file}' cannot be read: unexpected end of data."),
        ('1\n"0.5\n0', "but line 2 of '{file}' cannot be read: unexpected end of data."),
        ('""', "must have at least one number, but '{file}' has none."),
        (f"1\n{'1' * 131_073}", "but line 2 of '{file}' cannot be read: field larger than field limit (131072)."),
        (",".join(["1"] * 100_000), "but line 1 of '{file}' has 100000 columns."),
        ("1\n0.5\n-0.1", "must not be negative, but '{file}' has -0.1 at 2 visible tokens."),
        (
            "1\n0.5\n0.7",
            "must not increase, but it rises by 0.2 from 1 to 2 visible tokens. Use 'monotone' to replace it",
        ),
    ],
)
def test_a_bad_curve_is_refused_with_the_place(tmp_path, text, reason):
    file = tmp_path / "curve"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match=r"^Argument 'curve' ") as caught:
        read_curve(file)
    assert reason.format(file=file) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_only_a_curve_that_increases_can_be_made_monotone(tmp_path):
    file = tmp_path / "curve.json"
    for text, monotone in (("[1e308, 1e308]", False), ("[8e307, 8.1e307]", True)):
        file.write_text(text)
        with pytest.raises(ValueError, match=r"^Argument 'curve' must have a finite sum\.$"):
            read_curve(file, monotone=monotone)


def test_a_short_or_long_curve_is_never_extrapolated(tmp_path):
    file = tmp_path / "curve.json"
    file.write_text(json.dumps(LOSS))
    for length in (2, 4):
        with pytest.raises(ValueError, match=f"must have {length} numbers for a length of {length}, but .* has 3"):
            read_curve(file, length=length, monotone=True)


def test_what_cannot_be_read_is_refused(tmp_path):
    with pytest.raises(ValueError, match=r"must be the name of an existing file, not '.*'\."):
        read_curve(tmp_path / "absent")
    with pytest.raises(ValueError, match="must be a file, not the folder"):
        read_gauge(tmp_path)
    (tmp_path / "picture").write_bytes(b"\x89PNG\xff\xfe")
    with pytest.raises(ValueError, match=r"must be text in UTF-8, but '.*picture' is not"):
        read_curve(tmp_path / "picture")


def test_quotes_around_numbers_are_read_as_csv_has_them(tmp_path):
    (tmp_path / "curve").write_text('"n","loss"\n"0","1.5"\n"1",1\n2,"0.25"\n')
    assert read_curve(tmp_path / "curve").curve.loss.tolist() == LOSS
    (tmp_path / "curve").write_text('"1,5"\n')  # no number, and no two columns either
    with pytest.raises(ValueError, match="must have at least one number"):
        read_curve(tmp_path / "curve")


@pytest.mark.skipif(not Path("/dev/zero").is_char_device(), reason="this system has no such devices")
@pytest.mark.parametrize("device", ["/dev/zero", "/dev/full", "/dev/urandom"])
@pytest.mark.parametrize("read", [read_curve, read_gauge])
def test_a_device_without_an_end_is_refused_at_once(device, read):
    with pytest.raises(ValueError, match=f"must be a file of finite length, not the device '{device}'"):
        read(device)


def test_a_file_that_is_too_large_is_refused_by_its_size(tmp_path, monkeypatch):
    """By what the file system says of it, without a byte read; and a pipe after as many bytes."""
    with (tmp_path / "large").open("wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(ValueError, match=r"must be a file of at most 64 MiB, but '.*large' is larger"):
        read_curve(tmp_path / "large")
    reader, writer = os.pipe()
    os.write(writer, b"1\n" * 30_000)
    os.close(writer)
    with pytest.raises(ValueError, match="must be a file of at most 0 MiB"):
        _files.read_text(f"/dev/fd/{reader}", "text", most=50_000)
    os.close(reader)


def test_a_pipe_is_read_to_its_end(tmp_path):
    reader, writer = os.pipe()
    os.write(writer, "\ufeff1\n0.5\n".encode())
    os.close(writer)
    assert read_curve(f"/dev/fd/{reader}").curve.loss.tolist() == [1.0, 0.5]
    os.close(reader)


@pytest.mark.skipif(not hasattr(os, "getuid") or os.getuid() == 0, reason="root may read everything")
def test_a_file_without_permission_is_said_to_be_so(tmp_path):
    (tmp_path / "secret").write_text("1")
    (tmp_path / "secret").chmod(0)
    with pytest.raises(ValueError, match=r"must be a file that can be read, not '.*secret' .permission denied"):
        read_curve(tmp_path / "secret")


def test_what_the_system_says_is_repeated(tmp_path, monkeypatch):
    def refuse(*_, **__):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("builtins.open", refuse)
    with pytest.raises(ValueError, match=r"must be a file that can be read, not 'x' \(permission denied"):
        _files.read_text("x", "curve")
    monkeypatch.undo()
    with pytest.raises(ValueError, match=r"must be a file that can be read, not 'a·b' \(embedded null byte"):
        read_curve("a\0b")


@settings(max_examples=50)
@given(values=st.lists(st.floats(0, 10), min_size=1, max_size=20))
def test_a_curve_made_monotone_keeps_its_sum_and_changes_by_what_it_says(tmp_path_factory, values):
    """Isotonic regression replaces runs by their means; a curve that does not increase is left alone."""
    file = tmp_path_factory.mktemp("curves") / "curve.csv"
    file.write_text("\n".join(map(repr, values)))
    reading = read_curve(file, monotone=True)
    loss = reading.curve.loss
    assert np.all(np.diff(loss) <= 1e-12)
    assert loss.sum() == pytest.approx(sum(values), abs=1e-9)
    assert reading.change == np.abs(loss - values).max()
    if np.all(np.diff(values) <= 0):
        assert reading.change == 0


@pytest.mark.parametrize("text", ["[1, 2, 3]", '{"gauge": [1, 2, 3]}', "1\n2\n3", "i,gauge\n1,1\n2,2\n3,3"])
def test_a_gauge_has_one_number_for_each_rank(tmp_path, text):
    file = tmp_path / "gauge"
    file.write_text(text)
    for length in (None, 4):
        assert read_gauge(file, length=length)(4).tolist() == [1, 2, 3]
    with pytest.raises(ValueError, match=r"must have 1 number for a length of 2, but .* has 3"):
        read_gauge(file, length=2)
    with pytest.raises(ValueError, match=r"must have 4 numbers for a length of 5, but .* has 3"):
        read_gauge(file, length=5)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("[1, 0, 2]", "must be positive, but '{file}' has 0 at rank 2."),
        ("1\n2\n-3", "must be positive, but '{file}' has -3 at rank 3."),
        ("0,1\n1,2", "must have whole numbers of at least 1 in column i, but '{file}' has 0."),
        ("1,1\n3,2", "must have every number from 1 to 3 in column i, but 2 is missing from '{file}'."),
        ("", "is empty"),
    ],
)
def test_a_bad_gauge_is_refused_with_the_place(tmp_path, text, reason):
    file = tmp_path / "gauge"
    file.write_text(text)
    with pytest.raises(ValueError, match=r"^Argument 'gauge' ") as caught:
        read_gauge(file)
    assert reason.format(file=file) in str(caught.value)
