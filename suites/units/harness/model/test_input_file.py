"""Untrusted files and JSON: unreadable input is refused with a reason."""

import os
from pathlib import Path

import pytest

from brokerproof.harness.model import input_file, strict_json
from brokerproof.harness.model.input_file import BadInput
from brokerproof.harness.model.strict_json import BadJson


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("NaN", "NaN is not JSON"),
        ("[-Infinity]", "-Infinity is not JSON"),
        ("1e999", "too large for a double"),
        ("9" * 5000, "a whole number has 5000 digits"),
        ("-" + "9" * 100, "a whole number has 101 digits"),
        ("[" * 100_000, r"deeper than 64 levels \(column 65\)"),
        ('{"a":' * 100_000, "deeper than 64 levels"),
        ('{"a": 1, "b": 2, "a": 3}', "the key 'a' twice"),
        ("", r"column 1"),
        ('{"a": 1', r"column 8"),
        ("\ufeff{}", "is not JSON"),
    ],
)
def test_json_beyond_the_standard_is_refused(text: str, reason: str) -> None:
    with pytest.raises(BadJson, match=reason):
        strict_json.loads(text)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("[" * 64 + "]" * 64, None),
        ('"' + "[{" * 500 + '"', "[{" * 500),
        ('["\\"[[[[[[", ' + "[]," * 100 + "1]", None),
        (str(2**64), 2**64),
        ("1e-999", 0.0),
        ('{"a": "\\u0000"}', {"a": "\0"}),
    ],
)
def test_json_of_ours_is_read(text: str, value: object) -> None:
    read = strict_json.loads(text)
    assert value is None or read == value


def test_a_text_of_quotation_marks_costs_linear_time() -> None:
    with pytest.raises(BadJson):
        strict_json.loads("[" * 65 + '"' + '\\"' * 500_000)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"\xef\xbb\xbf1", "byte order mark"),
        (b"{\n\xff}", "line 2: is not UTF-8 .byte 2 of the file is 0xff"),
        (b"12345", "more than 4 bytes"),
    ],
)
def test_bytes_that_are_no_text_are_refused(tmp_path: Path, data: bytes, reason: str) -> None:
    path = tmp_path / "file"
    path.write_bytes(data)
    with pytest.raises(BadInput, match=reason):
        input_file.read_text(path, 4)


def test_only_regular_files_are_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    for name, reason in (
        ("pipe", "it is a pipe"),
        (".", "it is a folder"),
        ("/dev/zero", "it is a device"),
        ("loop", "symbolic links"),
        ("none", "No such file"),
        ("a\0b", "contains a NUL"),
    ):
        with pytest.raises(BadInput, match=reason):
            input_file.read_bytes(tmp_path / name)
