"""Stand-alone scripts of a counterexample, for a broker's maintainers: nothing of brokerproof is
needed to run them."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Mapping
from typing import Any

from brokerproof.harness.counterexamples import player
from brokerproof.harness.counterexamples.player import Part, Ref, Secret
from brokerproof.harness.counterexamples.script_builder import Composed, Line
from brokerproof.harness.protocols.stomp import codec

MOST_LINES = 3000
"""A conversation with more steps than this is not written as a script."""
_PIECE = 92


class Inexpressible(Exception):
    """A conversation cannot be written so: one sentence, which goes into the case file."""


def raw(header: Mapping[str, Any], talk: Composed) -> str:
    """The conversation over a plain socket, byte for byte. Raises :class:`Inexpressible`."""
    _check_length(talk)
    needed = (
        inspect.getsource(player)
        .partition('"""')[2]
        .partition('"""')[2]
        .replace("\n__all__ =", "\n_ALL =")
    )
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
    recorded = {
        "came": {
            conn: [(f.command, f.headers, f.body) for f in frames]
            for conn, frames in talk.came.items()
        },
        "ended": talk.ended,
    }
    return "\n".join(
        [
            *_head(header, "python3 THIS HOST:PORT [--login NAME --passcode WORD]", talk),
            needed.strip("\n").removesuffix("\n"),
            "",
            "",
            f"ABOUT = {opening!r}",
            f"EXPECTED = {talk.expected!r}",
            f"RECORDED = {recorded!r}",
            "",
            "",
            "def conversation(play: Player) -> None:",
            (
                '    """What is sent, what came back when this was recorded, and how long the'
                ' client waited."""'
            ),
            *(f"    {text}" for line in talk.lines for text in _call(line)),
            "",
            "",
            'if __name__ == "__main__":',
            "    raise SystemExit(main(conversation, EXPECTED, RECORDED, ABOUT))",
            "",
        ]
    )


def _head(header: Mapping[str, Any], usage: str, talk: Composed) -> list[str]:
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
        f"Run it: {usage}",
        f"It takes about {_lasts(talk):g} s, as when it was recorded.",
        "Exit 0: it came as expected; 1: it is violated again; 2: cannot be decided by a script.",
    ]
    return [
        "#!/usr/bin/env python3",
        *(f"# {text}".rstrip() for line in lines for text in line.splitlines() or [""]),
        "",
    ]


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
            yield (
                f"play.receive({line.conn}, {line.about['count']},"
                f" {line.frame.line()[:200]!r}{within}{mark})"
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
    """The parts as source, line by line; True where the next one continues the same bytes."""
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
            f"the conversation has {len(talk.lines)} steps, more than a script is readable with"
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
    """The conversation through stomp.py. Raises :class:`Inexpressible` where its frames would not
    be the same."""
    _check_length(talk)
    if talk.expected["kind"] == "duration":
        raise Inexpressible("what was measured is a time, which stomp.py's threads would blur")
    body = [text for line in talk.lines for text in _through_stomp_py(line, versions)]
    expected = talk.expected
    return "\n".join(
        [
            *_head(
                header,
                "python3 THIS HOST PORT [LOGIN PASSCODE]    (needs: pip install stomp.py)",
                talk,
            ),
            _STOMPY_PRELUDE.strip("\n").replace("MARK", repr(talk.mark.decode())),
            "",
            *body,
            "",
            *_stompy_verdict(expected),
            "",
        ]
    )


def _through_stomp_py(line: Line, versions: Mapping[int, str]) -> Iterator[str]:
    conn = line.conn
    match line.verb:
        case "open":
            kind = {"1.0": "Connection10", "1.1": "Connection11"}.get(
                versions.get(conn or 0, "1.2"), "Connection12"
            )
            yield f"c{conn}, got{conn} = client(stomp.{kind})"
        case "send":
            yield _stomp_py_frame(line, versions.get(conn or 0, "1.2"))
        case "receive":
            assert line.frame is not None
            yield (
                f"wait(lambda: len(got{conn}.frames) >= {line.about['count']}{_seconds(line)})  #"
                f" {line.frame.line()[:80]!r}"
            )
        case "pause":
            yield f"time.sleep({line.about['ms'] / 1000:g})"
        case "ends":
            yield f"wait(lambda: got{conn}.ended{_seconds(line)})"
        case "leave":
            if line.about["how"] != "EOF":
                raise Inexpressible("a connection is cut, which stomp.py cannot do")
            yield f"c{conn}.transport.disconnect_socket()"


def _seconds(line: Line) -> str:
    return f", {line.about['within_s']:g}" if "within_s" in line.about else ""


def _stomp_py_frame(line: Line, version: str) -> str:
    """``send_frame`` for a write that is one whole frame which stomp.py writes alike."""
    texts: dict[str, str] = {}
    data = b""
    for number, part in enumerate(line.parts):
        if isinstance(part, bytes):
            data += part
            continue
        place = f"Zq{number}qZ"
        if isinstance(part, Secret) and (part.start or part.end is not None):
            raise Inexpressible("a frame is written in pieces, and stomp.py writes it whole")
        texts[place] = (
            part.name.upper()
            if isinstance(part, Secret)
            else f"message(got{part.conn}, {part.nth}, {part.header!r})"
        )
        data += place.encode()
    frames = list(codec.Reader(version).feed(data))
    if (
        len(frames) != 1
        or not isinstance(frames[0], codec.Frame)
        or frames[0].command not in _CLIENT
    ):
        raise Inexpressible("something is written that is not one whole, well-formed frame")
    frame = frames[0]
    if codec.encode(frame.command, frame.headers, frame.body, version=version) != data:
        raise Inexpressible("a frame has line ends or escapes that stomp.py would write otherwise")
    if len({name for name, _ in frame.headers}) != len(frame.headers):
        raise Inexpressible("a frame repeats a header, and stomp.py has each once")
    beats = frame.get("heart-beat") or "0,0"
    if frame.command in ("CONNECT", "STOMP") and beats != "0,0":
        raise Inexpressible("heart-beats are agreed on, and stomp.py would keep them by itself")
    try:
        body = frame.body.decode()
    except UnicodeDecodeError:
        raise Inexpressible("a body is no text") from None
    headers = ", ".join(
        f"{name!r}: {texts.get(value, f'fresh({value!r})')}" for name, value in frame.headers
    )
    return f"c{line.conn}.send_frame({frame.command!r}, {{{headers}}}, {body!r})"


def _stompy_verdict(expected: Mapping[str, Any]) -> Iterator[str]:
    conn = expected.get("conn")
    if expected["kind"] not in ("frame", "silence", "end"):
        yield f"print('when it was recorded:', {expected['words']!r})"
        yield 'print("This cannot be decided here: compare what came with the requirement.")'
        yield "sys.exit(2)"
        return
    if expected["kind"] == "end":
        yield f"held = got{conn}.ended"
    else:
        command, headers, body = expected["command"], list(expected["headers"]), expected["body"]
        yield (
            f"count = sum(fits(frame, {command!r}, {headers!r}, {body!r}) for frame in"
            f" got{conn}.frames)"
        )
        if expected["kind"] == "frame":
            yield f"held = count > {expected['before']}"
        else:
            yield f"held = count <= {expected['before']} and not got{conn}.ended"
    yield f"print('expected:', {expected['words']!r})"
    yield 'print("It came as expected." if held else "It is violated again.")'
    yield "sys.exit(0 if held else 1)"


_STOMPY_PRELUDE = '''
import secrets
import sys
import time

import stomp

HOST, PORT = sys.argv[1], int(sys.argv[2])
LOGIN, PASSCODE = (*sys.argv[3:5], "", "")[:2]
OLD = MARK
NEW = secrets.token_hex(len(OLD))[: len(OLD)]


def fresh(text):
    """Destinations get a new name in every run."""
    return text.replace(OLD, NEW) if OLD else text


class Listener(stomp.ConnectionListener):
    def __init__(self):
        self.frames, self.ended = [], False

    def on_connected(self, frame):
        self.came(frame)

    def on_message(self, frame):
        self.came(frame)

    def on_receipt(self, frame):
        self.came(frame)

    def on_error(self, frame):
        self.came(frame)

    def came(self, frame):
        print(f"{time.monotonic():.3f} <- {frame.cmd} {frame.headers} {frame.body!r}")
        self.frames.append(frame)

    def on_disconnected(self):
        print(f"{time.monotonic():.3f} the broker ended the connection")
        self.ended = True


def client(kind):
    connection, listener = kind([(HOST, PORT)], heartbeats=(0, 0), reconnect_attempts_max=1), Listener()
    connection.set_listener("", listener)
    connection.transport.start()
    return connection, listener


def wait(ready, seconds=10.0):
    until = time.monotonic() + seconds
    while not ready() and time.monotonic() < until:
        time.sleep(0.005)


def message(listener, nth, header):
    found = [frame for frame in listener.frames if frame.cmd == "MESSAGE"]
    return found[nth - 1].headers.get(header, "no-such-message") if nth <= len(found) else "no-such-message"


def fits(frame, command, headers, body):
    if command is None:
        return True
    same = frame.cmd == command and (body is None or frame.body in (body, body.decode("utf-8", "replace")))
    return same and all(frame.headers.get(name) == fresh(value) for name, value in headers)

'''  # noqa: E501
