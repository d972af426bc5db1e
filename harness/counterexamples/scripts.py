"""Writes stand-alone scripts of a counterexample. A broker's maintainers can run them without
brokerproof."""

import ast
import inspect
import re
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from types import ModuleType
from typing import Any

from brokerproof.harness.counterexamples import decision, player, stompy_player
from brokerproof.harness.counterexamples.player import Part, Ref, Secret
from brokerproof.harness.counterexamples.script_builder import Composed, Line
from brokerproof.harness.protocols.stomp import codec

MOST_LINES = 3000
"""The most steps in a conversation that is written as a script."""
_PIECE = 92
_COMMENT = 98
_OURS = "brokerproof."


class Inexpressible(Exception):
    """A conversation cannot be written in this form. The case file stores the message."""


def raw(header: Mapping[str, Any], talk: Composed) -> str:
    """Return the conversation over a plain socket, byte for byte. Raises :class:`Inexpressible`."""
    _check_length(talk)
    steps = [text for line in talk.lines for text in _call(line)]
    head = _head(header, talk, "Python 3.11 and nothing else")
    return "\n".join([*head, *_program(header, talk, (player, decision), steps, "Player")])


def _program(
    header: Mapping[str, Any],
    talk: Composed,
    modules: Sequence[ModuleType],
    steps: list[str],
    kind: str,
) -> list[str]:
    """Return the source of ``modules`` and of the conversation, for a player of ``kind``."""
    opening = {
        "what": f"{header['case']}: {header['detail']}",
        "acceptors": talk.acceptors,
        "mark": talk.mark,
        "detail": header["detail"],
        "requirements": [
            {key: requirement[key] for key in ("id", "level", "source", "statement")}
            for requirement in header["requirements"]
        ],
    }
    return [
        *_source(modules),
        "",
        "",
        f"ABOUT = {opening!r}",
        f"EXPECTED = {talk.expected!r}",
        f"RECORDED = {talk.recorded!r}",
        "",
        "",
        f"def conversation(play: {kind}) -> None:",
        (
            '    """What is sent, what came back when this was recorded, and how long the'
            ' client waited."""'
        ),
        *(f"    {text}" for text in steps),
        "",
        "",
        'if __name__ == "__main__":',
        f"    raise SystemExit(main(conversation, EXPECTED, RECORDED, ABOUT, {kind}))",
        "",
    ]


def _source(modules: Sequence[ModuleType]) -> Iterator[str]:
    """Return the lines of ``modules`` merged into one module: first all imports except our own,
    then the definitions, without module docstrings."""
    whole: set[str] = set()
    names: dict[str, set[str]] = {}
    definitions: list[str] = []
    for module in modules:
        source = inspect.getsource(module)
        lines = source.splitlines()
        docstring, *rest = ast.parse(source).body
        imports = [node for node in rest if isinstance(node, ast.Import | ast.ImportFrom)]
        for node in reversed([docstring, *imports]):
            del lines[node.lineno - 1 : node.end_lineno]
        for node in imports:
            if isinstance(node, ast.Import):
                whole |= {alias.name for alias in node.names}
            elif node.module is not None and not node.module.startswith(_OURS):
                names.setdefault(node.module, set()).update(alias.name for alias in node.names)
        definitions += ["", "", *"\n".join(lines).strip("\n").splitlines()]
    yield f"from __future__ import {', '.join(names.pop('__future__'))}"
    yield ""
    yield from (f"import {name}" for name in sorted(whole))
    yield from (f"from {name} import {', '.join(sorted(names[name]))}" for name in sorted(names))
    yield from definitions


def _head(header: Mapping[str, Any], talk: Composed, needs: str) -> list[str]:
    said = [
        f"{requirement['id']} ({requirement['level']}, {requirement['source']}):"
        f" {requirement['statement']}"
        for requirement in header["requirements"]
    ]
    lines = [
        f"{header['case']}, recorded with {header['broker']} {header['broker_version']}.",
        "",
        *said,
        "",
        f"What happened: {header['detail']}",
        "",
        "Run it: python3 THIS HOST:PORT [--login NAME --passcode WORD]",
        f"It needs {needs}. It takes about {_lasts(talk):g} s, as when it was recorded.",
        *textwrap.wrap(_exits(talk.expected), _COMMENT),
        "",
        "The case itself judges more than this one conversation: pip install brokerproof, and then",
        f"brokerproof replay {header['file']} --target HOST:PORT",
    ]
    return [
        "#!/usr/bin/env python3",
        *(f"# {text}".rstrip() for line in lines for text in line.splitlines() or [""]),
        "",
    ]


def _exits(expected: Mapping[str, Any]) -> str:
    """Return the meaning of a script's exit codes for this expectation."""
    if not decision.decidable(expected):
        return (
            "Exit 1: the broker does exactly what it did when this was recorded, so it is violated"
            " again; 2: it does something else, and the last lines say what. Never 0: only the case"
            " can tell whether something else is right."
        )
    if expected["kind"] in ("duration", "signs"):
        near = ", or the time was too near to its bound"
    else:
        near = ""
    return (
        "Exit 0: what was violated is met now; 1: it is violated again; 2: the conversation took"
        " another course before the point that decides, or there was none, and the last lines say"
        f" at which step and what arrived instead, or what is wrong{near}."
    )


def _lasts(talk: Composed) -> float:
    last = max((line.at + round(line.about.get("ms", 0) * 1e6) for line in talk.lines), default=0)
    return round((last - talk.lines[0].at) / 1e9, 1) if talk.lines else 0.0


def _call(line: Line) -> Iterator[str]:
    mark = f", mark={line.about['mark']!r}" if "mark" in line.about else ""
    within = f", within={line.about['within_s']:g}" if "within_s" in line.about else ""
    match line.verb:
        case "open":
            yield f"play.open({line.conn}, {line.about['acceptor']!r})"
        case "send":
            pieces = list(_pieces(line.parts))
            if len(pieces) == 1 and len(pieces[0]) < _PIECE:
                yield f"play.send({line.conn}, {pieces[0]}{mark})"
            else:
                yield "play.send("
                yield f"    {line.conn},"
                yield from (
                    f"    {part}" if part.startswith("b") and more else f"    {part},"
                    for part, more in _joined(line.parts)
                )
                if mark:
                    yield f"    {mark.removeprefix(', ')},"
                yield ")"
        case "receive":
            assert line.frame is not None
            needed = ", needed=True" if line.about.get("needed") else ""
            yield (
                f"play.receive({line.conn}, {line.about['count']},"
                f" {line.frame.line()[:200]!r}{needed}{within}{mark})"
            )
        case "pause":
            yield f"play.pause({line.about['ms'] / 1000:g})"
        case "leave" | "ends":
            yield (
                f"play.{'leave' if line.verb == 'leave' else 'ends'}({line.conn},"
                f" {line.about['how']!r}{within}{mark})"
            )


def _pieces(parts: tuple[Part, ...]) -> Iterator[str]:
    return (text for text, _ in _joined(parts))


def _joined(parts: tuple[Part, ...]) -> Iterator[tuple[str, bool]]:
    """Return the parts as source lines; each with True if the next line continues the same
    bytes."""
    for part in parts:
        if isinstance(part, Ref):
            yield f"Ref({part.conn}, {part.nth}, {part.header!r})", False
        elif isinstance(part, Secret):
            whole = part.start == 0 and part.end is None
            yield (
                (
                    f"Secret({part.name!r})"
                    if whole
                    else f"Secret({part.name!r}, {part.start}, {part.end})"
                ),
                False,
            )
        else:
            lines = re.findall(rb"[^\n]{1,200}\n?|\n", part)
            for place, text in enumerate(lines):
                yield repr(text), place < len(lines) - 1


def _check_length(talk: Composed) -> None:
    if len(talk.lines) > MOST_LINES:
        raise Inexpressible(
            f"the conversation has {len(talk.lines)} steps, too many for a readable script"
        )


# stomp.py

_CLIENT = frozenset(
    {
        "CONNECT",
        "STOMP",
        "SEND",
        "SUBSCRIBE",
        "UNSUBSCRIBE",
        "ACK",
        "NACK",
        "BEGIN",
        "COMMIT",
        "ABORT",
        "DISCONNECT",
    }
)


def stompy(header: Mapping[str, Any], talk: Composed, versions: Mapping[int, str]) -> str:
    """Return the conversation through stomp.py. Raises :class:`Inexpressible` if stomp.py would
    write other frames."""
    _check_length(talk)
    if talk.expected["kind"] in ("duration", "signs"):
        raise Inexpressible("the result depends on timing, which stomp.py's threads would distort")
    steps = [text for line in talk.lines for text in _through_stomp_py(line, versions)]
    head = _head(header, talk, "Python 3.11 and stomp.py (pip install stomp.py)")
    modules = (player, stompy_player, decision)
    return "\n".join([*head, *_program(header, talk, modules, steps, "StompPyPlayer")])


def _through_stomp_py(line: Line, versions: Mapping[int, str]) -> Iterator[str]:
    version = versions.get(line.conn or 0, "1.2")
    match line.verb:
        case "open":
            yield f"play.connect({line.conn}, {line.about['acceptor']!r}, {version!r})"
        case "send":
            yield _stomp_py_frame(line, version)
        case "leave" if line.about["how"] != "EOF":
            raise Inexpressible("a connection is cut, which stomp.py cannot do")
        case _:
            yield from _call(line)


def _stomp_py_frame(line: Line, version: str) -> str:
    """Return a ``send_frame`` call for a write of one whole frame, if stomp.py would write it
    identically."""
    texts: dict[str, str] = {}
    data = b""
    for number, part in enumerate(line.parts):
        if isinstance(part, bytes):
            data += part
            continue
        place = f"Zq{number}qZ"
        if isinstance(part, Secret) and (part.start or part.end is not None):
            raise Inexpressible("a frame is written in pieces, but stomp.py writes it whole")
        texts[place] = (
            f"Secret({part.name!r})"
            if isinstance(part, Secret)
            else f"Ref({part.conn}, {part.nth}, {part.header!r})"
        )
        data += place.encode()
    frames = list(codec.Reader(version).feed(data))
    if (
        len(frames) != 1
        or not isinstance(frames[0], codec.Frame)
        or frames[0].command not in _CLIENT
    ):
        raise Inexpressible("one write is not a single well-formed frame")
    frame = frames[0]
    if codec.encode(frame.command, frame.headers, frame.body, version=version) != data:
        raise Inexpressible(
            "a frame has line ends or escapes that stomp.py would write differently"
        )
    if len({name for name, _ in frame.headers}) != len(frame.headers):
        raise Inexpressible("a frame repeats a header, but stomp.py writes each header once")
    if any(codec.escape(name, version) != name for name, _ in frame.headers):
        raise Inexpressible("a header's name is escaped, but stomp.py escapes only values")
    beats = frame.get("heart-beat") or "0,0"
    if frame.command in ("CONNECT", "STOMP") and beats != "0,0":
        raise Inexpressible("heart-beats were agreed on, but stomp.py sends them by itself")
    try:
        body = frame.body.decode()
    except UnicodeDecodeError:
        raise Inexpressible("a body is not text") from None
    headers = ", ".join(
        f"{name!r}: {texts.get(value, repr(value))}" for name, value in frame.headers
    )
    shown = f", {body!r}" if body else ""
    return f"play.frame({line.conn}, {frame.command!r}, {{{headers}}}{shown})"
