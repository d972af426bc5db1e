"""Case files, ``*.case.jsonl``. The first line is a header (what failed, and how to run it again);
the conversation follows, one step per line."""

import ast
import base64
import hashlib
import inspect
import json
import re
import textwrap
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, get_args

from brokerproof.harness.counterexamples.player import Came, Part, Ref, Secret
from brokerproof.harness.counterexamples.script_builder import (
    COUNTED,
    Composed,
    Line,
    mark_decidable,
)
from brokerproof.harness.model import input_file, strict_json
from brokerproof.harness.model.enums import CloseHow
from brokerproof.harness.model.input_file import BadInput, OneSentence
from brokerproof.harness.model.strict_json import BadJson
from brokerproof.harness.protocols.byte_log import Kind
from brokerproof.harness.trace.redaction import Redaction

FORMAT = "brokerproof-case"
VERSION = 1
SUFFIX = ".case.jsonl"
FOLDER = "counterexamples"


class BadCaseFile(OneSentence):
    """A file is not a case file of this version. The message is one sentence with the file, the
    line and the error."""


@dataclass
class CaseFile:
    """The content of a case file. ``conversation`` is None if no bytes were kept; the header then
    says why."""

    header: dict[str, Any]
    conversation: Composed | None = field(default=None)


def slug(target: str, case: str) -> str:
    """Return a readable and unique file name for the counterexample of a case on a target."""
    digest = hashlib.sha256(f"{target}\0{case}".encode()).hexdigest()[:8]
    return (
        re.sub(r"[^A-Za-z0-9]+", "-", f"{target}-{case}").strip("-")[:90].strip("-").lower()
        + f"-{digest}"
    )


def path_of(folder: Path, target: str, case: str) -> Path:
    return folder / FOLDER / f"{slug(target, case)}{SUFFIX}"


def fingerprint(function: Callable[..., Any], cited: tuple[str, ...]) -> str:
    """Return a digest of the function's code, ignoring its docstring, position and layout."""
    try:
        parsed = ast.parse(textwrap.dedent(inspect.getsource(function)))
        for node in ast.walk(parsed):
            if (
                isinstance(node, ast.FunctionDef)
                and ast.get_docstring(node, clean=False) is not None
            ):
                node.body = node.body[1:]
        text = ast.dump(parsed)
    except (OSError, TypeError, SyntaxError):
        text = function.__qualname__
    return hashlib.sha256("\0".join((text, *cited)).encode()).hexdigest()[:16]


def write(path: Path, file: CaseFile, redaction: Redaction | None = None) -> None:
    lines = [{"format": FORMAT, "version": VERSION, **file.header}]
    if file.conversation is not None:
        lines += _lines(file.conversation)
    partial = path.with_name(f".{path.name}.partial")
    text = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)
    partial.write_text((redaction or Redaction()).text(text), "utf-8")
    partial.rename(path)


def _lines(talk: Composed) -> Iterator[dict[str, Any]]:
    began = talk.lines[0].at if talk.lines else 0
    yield {"step": "conversation", "mark": talk.mark.decode(), "acceptors": talk.acceptors}
    for line in talk.lines:
        entry: dict[str, Any] = {"step": line.verb, "at_ms": round((line.at - began) / 1e6, 3)}
        if line.conn is not None:
            entry["conn"] = line.conn
        entry |= line.about
        if line.parts:
            entry["octets"] = [_part(part) for part in line.parts]
        if line.frame is not None:
            frame = line.frame
            entry["frame"] = [
                _text(frame.command),
                [[_text(n), _text(v)] for n, v in frame.headers],
                _encoded(frame.body),
            ]
        yield entry
    expected = dict(talk.expected)
    if isinstance(expected.get("body"), bytes):
        expected["body"] = _encoded(expected["body"])
    for key in ("want", "ignored"):
        if key in expected:
            expected[key] = [_encoded(body) for body in expected[key]]
    yield {"step": "expectation", **expected}


def read(path: Path) -> CaseFile:
    try:
        text = input_file.read_text(path).removesuffix("\n")
    except BadInput as problem:
        raise BadCaseFile(
            f"{path}: {problem}; it should be a {SUFFIX} file of brokerproof"
        ) from None
    values = []
    # Not splitlines, because JSON text may contain U+2028 and other line separators.
    for number, line in enumerate(text.split("\n") if text else (), 1):
        try:
            values.append(strict_json.loads(line))
        except BadJson as problem:
            raise BadCaseFile(
                f"{path}, line {number}: {problem}; the file may have been cut off"
            ) from None
        if not isinstance(values[-1], dict):
            raise BadCaseFile(f"{path}, line {number}: should be a JSON object")
    if not values or values[0].get("format") != FORMAT:
        raise BadCaseFile(f"{path}, line 1: is not a header; format should be {FORMAT!r}")
    header = values[0]
    if header.get("version") != VERSION:
        raise BadCaseFile(
            f"{path}, line 1: version is {header.get('version')!r}; this brokerproof reads"
            f" {VERSION}"
        )
    for key, kind in (
        ("case", str),
        ("requirements", list),
        ("seed", int),
        ("detail", str),
        ("fingerprint", str),
    ):
        if not isinstance(header.get(key), kind) or isinstance(header.get(key), bool):
            raise BadCaseFile(
                f"{path}, line 1: {key} is {header.get(key)!r}; it should be a {kind.__name__}"
            )
    if not 0 <= header["seed"] < 1 << 64 or not isinstance(header.get("case_version"), str | None):
        raise BadCaseFile(f"{path}, line 1: seed should be below 2^64, and case_version text")
    if not all(
        isinstance(entry, dict) and isinstance(entry.get("id"), str)
        for entry in header["requirements"]
    ):
        raise BadCaseFile(
            f"{path}, line 1: every entry of requirements should be an object with an id"
        )
    try:
        return CaseFile(header, _conversation(values[1:]))
    except (KeyError, IndexError, TypeError, ValueError, AttributeError, OverflowError) as problem:
        raise BadCaseFile(
            f"{path}: the steps are not in the format of this version ({problem!r})"
        ) from None


MOST_SECONDS = 86_400
"""The longest pause or wait in a recording: a day."""
_KINDS = (*get_args(Kind), "words")
_WITH_CONN = (*COUNTED, "end", "open", "window")
"""The kinds of expectation that name a connection."""


def _text_of(values: Mapping[str, Any], key: str) -> str:
    if not isinstance(values[key], str):
        raise TypeError(f"{key} is {values[key]!r:.60}; it should be text")
    return str(values[key])


def _number_of(values: Mapping[str, Any], key: str, most: int) -> float:
    value = values[key]
    if type(value) not in (int, float) or not 0 <= value <= most:
        raise TypeError(f"{key} is {value!r:.60}; it should be a number from 0 to {most}")
    return float(value)


def _check_step(line: Line, came: Mapping[int, list[Came]]) -> None:
    """Raise ``KeyError``, ``TypeError`` or ``ValueError`` for a step that cannot be played."""
    fields = line.about
    if line.verb != "pause" and (type(line.conn) is not int or line.conn not in came):
        raise ValueError(f"{line.verb} names the connection {line.conn!r:.60}, which is not open")
    match line.verb:
        case "open":
            _text_of(fields, "acceptor")
        case "receive":
            _number_of(fields, "count", 1 << 31)
        case "pause":
            _number_of(fields, "ms", MOST_SECONDS * 1000)
        case "leave" | "ends":
            CloseHow(_text_of(fields, "how"))
        case "send":
            for part in line.parts:
                if isinstance(part, Ref) and (part.conn not in came or part.nth < 1):
                    raise ValueError(f"send refers to {part!r:.80}, which never arrived")
        case _:
            raise ValueError(f"{line.verb!r:.60} is not a step")
    if "within_s" in fields:
        _number_of(fields, "within_s", MOST_SECONDS)


def _check_expectation(expected: Mapping[str, Any], came: Mapping[int, list[Came]]) -> None:
    if expected["kind"] not in _KINDS:
        raise ValueError(f"the expectation's kind is {expected['kind']!r:.60}, which is unknown")
    _text_of(expected, "words")
    if expected["kind"] in COUNTED:
        _number_of(expected, "before", 1 << 31)
        if expected["command"] is not None:
            _text_of(expected, "command")
        for name, value in expected["headers"]:
            if not isinstance(name, str) or not isinstance(value, str):
                raise TypeError("the expectation's headers should be pairs of text")
    if expected["kind"] in ("duration", "signs") and "lo_s" in expected:
        _number_of(expected, "lo_s", MOST_SECONDS)
        if expected["hi_s"] is not None or expected["kind"] == "signs":
            _number_of(expected, "hi_s", MOST_SECONDS)
    if expected["kind"] == "messages":
        if expected["match"] not in ("in order", "in any order", "among others"):
            raise ValueError(
                f"the expectation's match is {expected['match']!r:.60}, which is unknown"
            )
        conns = [conn for conn, first in expected["conns"] if type(first) is int and first >= 0]
        if len(conns) < len(expected["conns"]) or not set(conns) <= came.keys():
            raise ValueError("the expectation's conns should be pairs of a connection and a number")
    if expected["kind"] == "window":
        _number_of(expected, "total", 1 << 31)
        if type(expected["window"]) is not int or type(expected["cumulative"]) is not bool:
            raise TypeError(
                "the expectation's window should be a number, and cumulative true or false"
            )
    if "conn" in expected or expected["kind"] in _WITH_CONN:
        conn = expected["conn"]
        if type(conn) is not int or conn not in came:
            raise ValueError(
                f"the expectation names the connection {conn!r:.60}, which is not open"
            )


def _conversation(values: list[dict[str, Any]]) -> Composed | None:
    if not values:
        return None
    header, *steps, expectation = values if len(values) > 1 else [*values, {"step": ""}]
    if header["step"] != "conversation" or expectation["step"] != "expectation":
        raise ValueError("the first should be a conversation and the last an expectation")
    lines: list[Line] = []
    came: dict[int, list[Came]] = {}
    ended: list[int] = []
    for step in steps:
        rest = {
            k: v for k, v in step.items() if k not in ("step", "at_ms", "conn", "octets", "frame")
        }
        at_ms = _number_of(step, "at_ms", MOST_SECONDS * 1000)
        line = Line(round(at_ms * 1e6), _text_of(step, "step"), step.get("conn"), rest)
        line.parts = tuple(_part_of(part) for part in step.get("octets", ()))
        if "frame" in step:
            command, headers, body = step["frame"]
            pairs = [(str(n), str(v)) for n, v in headers]
            line.frame = Came(line.at / 1e9, str(command), pairs, _bytes_of(body))
            came.setdefault(int(step["conn"]), []).append(line.frame)
        if line.verb == "open":
            came.setdefault(int(step["conn"]), [])
        if line.verb == "ends":
            ended.append(int(step["conn"]))
        _check_step(line, came)
        lines.append(line)
    expected = {k: v for k, v in expectation.items() if k != "step"}
    if isinstance(expected.get("body"), dict):
        expected["body"] = _bytes_of(expected["body"])
    for key in ("want", "ignored"):
        if key in expected:
            expected[key] = [_bytes_of(body) for body in expected[key]]
    _check_expectation(expected, came)
    mark_decidable(expected, lines)
    acceptors = [str(acceptor) for acceptor in header["acceptors"]]
    return Composed(lines, expected, came, ended, _text_of(header, "mark").encode(), acceptors)


def _encoded(data: bytes) -> dict[str, str]:
    try:
        return {"text": data.decode()}
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode()}


def _bytes_of(stored: Mapping[str, str]) -> bytes:
    return (
        stored["text"].encode()
        if "text" in stored
        else base64.b64decode(stored["base64"], validate=True)
    )


def _part(part: Part) -> dict[str, Any]:
    if isinstance(part, Secret):
        return {"secret": list(part)}
    if isinstance(part, Ref):
        return {"of_message": list(part)}
    return _encoded(part)


def _part_of(stored: Mapping[str, Any]) -> Part:
    if "secret" in stored:
        name, start, end = stored["secret"]
        if name not in ("login", "passcode"):
            raise ValueError(f"no secret is called {name!r:.60}")
        return Secret(name, int(start), None if end is None else int(end))
    if "of_message" in stored:
        conn, nth, header = stored["of_message"]
        return Ref(int(conn), int(nth), str(header))
    return _bytes_of(stored)


def _text(text: str) -> str:
    """Return bytes as text that JSON can hold; bytes that are not UTF-8 are escaped (``\xff``)."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
