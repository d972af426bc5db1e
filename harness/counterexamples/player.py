"""Plays a recorded STOMP conversation again, byte for byte, and says whether the same thing went
wrong.

This file needs Python 3.11 and nothing else. It is used by ``brokerproof replay`` and is copied
whole into every ``*_raw.py`` script.

What cannot be the same twice is filled in while playing: the ids by which ACK and NACK name a
message come from the MESSAGE that arrived this time, and destination names get a new mark of the
same length.
"""

from __future__ import annotations

import argparse
import secrets
import select
import socket
import struct
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

PATIENCE_S = 10.0
"""Longest wait of a step for a frame that arrived when this was recorded."""
FLOOR_S = 0.05
"""A measured time within this of a bound, or within a fiftieth of it, decides nothing."""
VOLATILE = frozenset(
    {"message-id", "ack", "session", "timestamp", "server", "expires", "heart-beat"}
)
"""Headers whose values differ from run to run without meaning anything."""


def show(text: str = "") -> None:
    """A line on standard output, at once."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


class Ref(NamedTuple):
    """Bytes that are known only while playing: a header of the ``nth`` MESSAGE (from 1) that
    arrived on ``conn``."""

    conn: int
    nth: int
    header: str


class Secret(NamedTuple):
    """Bytes ``start`` to ``end`` of the login or the passcode that was given."""

    name: str
    start: int = 0
    end: int | None = None


Part = bytes | Ref | Secret


class Came(NamedTuple):
    """A frame, in the escapes of the wire. ``at`` is in seconds."""

    at: float
    command: str
    headers: list[tuple[str, str]]
    body: bytes

    def get(self, name: str) -> str | None:
        """The first value of that header."""
        return next((value for header, value in self.headers if header == name), None)

    def line(self) -> str:
        """The frame in one line."""
        headers = " ".join(f"{name}:{value}" for name, value in self.headers)
        body = f" {self.body[:80]!r}" + (
            f"… ({len(self.body)} bytes)" if len(self.body) > 80 else ""
        )
        return f"{self.command} {headers}{body if self.body else ''}".encode(
            "utf-8", "replace"
        ).decode()


class Frames:
    """Cuts bytes into frames without judging them; what is no frame stays where it is."""

    def __init__(self) -> None:
        self._pending = bytearray()

    def feed(self, at: float, data: bytes) -> list[Came]:
        """The frames completed by ``data``."""
        self._pending += data
        arrivals: list[Came] = []
        while True:
            while self._pending and self._pending[0] in b"\r\n":
                del self._pending[:1]
            ends = [(self._pending.find(mark), len(mark)) for mark in (b"\n\n", b"\n\r\n")]
            ends = [end for end in ends if end[0] >= 0]
            if not ends:
                return arrivals
            head_end, size = min(ends)
            lines = bytes(self._pending[:head_end]).decode("utf-8", "surrogateescape").split("\n")
            command, *rest = (line.removesuffix("\r") for line in lines)
            headers = [(name, value) for name, _, value in (line.partition(":") for line in rest)]
            start = head_end + size
            length = next((value for name, value in headers if name == "content-length"), "")
            end = start + int(length) if length.isdecimal() else self._pending.find(b"\0", start)
            if end < 0 or end >= len(self._pending):
                return arrivals
            arrivals.append(Came(at, command, headers, bytes(self._pending[start:end])))
            del self._pending[: end + 1]


class Player:
    """The verbs of a recorded conversation, over sockets. ``say`` is told every step."""

    def __init__(
        self,
        endpoints: Mapping[str, tuple[str, int]],
        login: str,
        passcode: str,
        mark: bytes = b"",
        say: Callable[[str], None] | None = None,
    ) -> None:
        self._endpoints, self._say = endpoints, say or show
        self._secrets = {"login": login.encode(), "passcode": passcode.encode()}
        self.mark = mark
        self.new_mark = secrets.token_hex(len(mark))[: len(mark)].encode()
        self.came: dict[int, list[Came]] = {}
        self.ended: dict[int, tuple[float, str]] = {}
        self.marks: dict[str, float] = {}
        self.late: list[str] = []
        """Frames of the recording that did not come this time."""
        self._readers: dict[int, Frames] = {}
        self._sockets: dict[int, socket.socket] = {}
        self._gone: set[int] = set()
        self._reset: set[int] = set()

    # the verbs

    def open(self, conn: int, acceptor: str) -> None:
        """Connect."""
        self.came[conn], self._readers[conn] = [], Frames()
        self._dial(conn, acceptor)
        self._tell(conn, f"opened to {acceptor}")

    def send(self, conn: int, *parts: Part, mark: str = "") -> None:
        """Write these bytes in one go. ``mark`` gives the moment a name."""
        data = b"".join(self._bytes_of(part) for part in parts)
        if mark:
            self.marks[mark] = self.now()
        self._tell(
            conn,
            f"→ {_shown([self._renamed(part) if isinstance(part, bytes) else part for part in parts])}",  # noqa: E501
        )
        if conn not in self._gone and conn not in self.ended:
            self._write(conn, data)

    def receive(
        self, conn: int, count: int, like: str, *, within: float = PATIENCE_S, mark: str = ""
    ) -> None:
        """Wait until ``count`` frames have come on this connection since it was opened. ``like`` is
        what came once."""
        self._wait(self.now() + within, lambda: len(self.came[conn]) >= count or conn in self.ended)
        if len(self.came[conn]) < count:
            self.late.append(f"connection {conn}, frame {count}: {like}")
            self._tell(conn, f"… did not come this time: {like}")
        elif mark:
            self.marks[mark] = self.came[conn][count - 1].at

    def ends(self, conn: int, how: str, *, within: float = PATIENCE_S, mark: str = "") -> None:
        """Wait until the broker ends the connection, as it did once (``how``)."""
        self._wait(self.now() + within, lambda: conn in self.ended)
        if conn not in self.ended:
            self.late.append(f"connection {conn}: the end ({how})")
            self._tell(conn, f"… the broker did not end it this time ({how})")
        elif mark:
            self.marks[mark] = self.ended[conn][0]

    def pause(self, seconds: float) -> None:
        """Let time pass."""
        self._say(f"{self.now():9.3f}  pause of {seconds:g} s")
        self._wait(self.now() + seconds, lambda: False)

    def leave(self, conn: int, how: str) -> None:
        """End the connection from our side: EOF (in order) or RESET."""
        self._tell(conn, f"ended by us ({how})")
        self._gone.add(conn)
        self._hang_up(conn, how)

    # what came

    def arrived(self, conn: int, data: bytes) -> None:
        """Bytes came."""
        at = self.now()
        for frame in self._readers[conn].feed(at, data):
            self.came[conn].append(frame)
            self._tell(conn, f"← {frame.line()}")

    def closed(self, conn: int, how: str) -> None:
        """The broker's end went away."""
        self.ended[conn] = (self.now(), how)
        self._tell(conn, f"✕ ended by the broker ({how})")

    def _bytes_of(self, part: Part) -> bytes:
        if isinstance(part, Secret):
            return self._secrets[part.name][part.start : part.end]
        if isinstance(part, Ref):
            messages = [frame for frame in self.came[part.conn] if frame.command == "MESSAGE"]
            value = messages[part.nth - 1].get(part.header) if part.nth <= len(messages) else None
            return (value if value is not None else "no-such-message").encode(
                "utf-8", "surrogateescape"
            )
        return self._renamed(part)

    def _renamed(self, data: bytes) -> bytes:
        return data.replace(self.mark, self.new_mark) if self.mark else data

    def _tell(self, conn: int, text: str) -> None:
        self._say(f"{self.now():9.3f}  {conn}  {text}")

    # sockets; ``brokerproof replay`` has others

    _began = 0.0

    def now(self) -> float:
        """Seconds since the first look at the clock."""
        now = time.monotonic()
        self._began = self._began or now
        return now - self._began

    def _dial(self, conn: int, acceptor: str) -> None:
        self._sockets[conn] = socket.create_connection(
            self._endpoints[acceptor], timeout=PATIENCE_S
        )
        self._sockets[conn].setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def _write(self, conn: int, data: bytes) -> None:
        try:
            self._sockets[conn].sendall(data)
        except BrokenPipeError:
            pass  # the broker's end is gone; reading says how
        except OSError:
            self._reset.add(conn)  # the kernel tells that once: reading ends as if in order

    def _wait(self, deadline: float, ready: Callable[[], bool]) -> None:
        while not ready() and (left := deadline - self.now()) > 0:
            alive = {
                sock: conn
                for conn, sock in self._sockets.items()
                if conn not in self.ended and sock.fileno() >= 0
            }
            for sock in select.select(list(alive), [], [], left)[0]:
                try:
                    data = sock.recv(65536)
                except OSError:
                    self.closed(alive[sock], "RESET")
                    continue
                if data:
                    self.arrived(alive[sock], data)
                else:
                    self.closed(alive[sock], "RESET" if alive[sock] in self._reset else "EOF")

    def _hang_up(self, conn: int, how: str) -> None:
        if how == "RESET":
            self._sockets[conn].setsockopt(
                socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0)
            )
        self._sockets[conn].close()

    def close(self) -> None:
        """End everything."""
        for sock in self._sockets.values():
            sock.close()


def decide(
    expected: Mapping[str, Any], recorded: Mapping[str, Any], player: Player
) -> tuple[bool | None, str]:
    """True if what was expected came (True), was missed again (False), or cannot be told (None),
    and a sentence."""
    kind, conn = expected["kind"], expected.get("conn")
    if kind in ("frame", "silence") and conn in player.came:
        count = sum(_fits(frame, expected, player) for frame in player.came[conn])
        came = f"{count} came"
        if kind == "frame":
            enough = count > expected["before"]
            return (
                enough,
                (
                    f"expected {expected['words']} (number {expected['before'] + 1} of its kind),"
                    f" {came}"
                ),
            )
        quiet = count <= expected["before"] and conn not in player.ended
        gone = ", and the broker ended the connection" if conn in player.ended else ""
        return (
            quiet,
            f"expected no more than {expected['before']} of {expected['words']}, {came}{gone}",
        )
    if kind == "end" and conn in player.came:
        return conn in player.ended, f"expected the broker to end connection {conn}"
    if kind == "duration" and {"since", "until"} <= player.marks.keys():
        value = player.marks["until"] - player.marks["since"]
        low, high = expected["lo_s"], expected["hi_s"]
        words = (
            f"{expected['words']}: {value:.3f} s, should be between {low:g} s and"
            f" {high if high else 'any time'} s"
        )
        margin = max(FLOOR_S, (high or low) / 50)
        if low <= value and (high is None or value <= high):
            return True, words
        beyond = value < low - margin or (high is not None and value > high + margin)
        return (False if beyond else None), words
    return _compare(recorded, player)


def _fits(frame: Came, expected: Mapping[str, Any], player: Player) -> bool:
    command, body = expected.get("command"), expected.get("body")
    if command is None or (expected["kind"] == "silence" and frame.command == "ERROR"):
        return True
    if frame.command != command or (body is not None and frame.body != body):
        return False
    old, new = player.mark.decode(), player.new_mark.decode()
    headers = [
        (name, value.replace(old, new) if old else value) for name, value in expected["headers"]
    ]
    return all(frame.get(name) == value for name, value in headers)


def _compare(recorded: Mapping[str, Any], player: Player) -> tuple[bool | None, str]:
    """Without an expectation that can be checked here: the same behaviour is the same violation."""
    for conn, frames in recorded["came"].items():
        now = [
            _essence(frame.command, frame.headers, frame.body, player)
            for frame in player.came.get(int(conn), [])
        ]
        then = [_essence(command, headers, body, None) for command, headers, body in frames]
        if now[: len(then)] != then or len(now) > len(then):
            return (
                None,
                (
                    f"on connection {conn} something else came than when this was recorded; compare"
                    " them yourself"
                ),
            )
        if (int(conn) in player.ended) != (int(conn) in recorded["ended"]):
            return (
                None,
                (
                    f"connection {conn} ended otherwise than when this was recorded; compare them"
                    " yourself"
                ),
            )
    return False, "the broker did exactly what it did when this was recorded"


def _essence(
    command: str, headers: Sequence[tuple[str, str]], body: bytes, player: Player | None
) -> tuple[str, list[tuple[str, str]], bytes]:
    """A frame without what differs from run to run."""
    if command == "ERROR":
        return command, [], b""
    new, old = (
        (player.new_mark.decode(), player.mark.decode())
        if player is not None and player.mark
        else ("", "")
    )
    kept = [
        (name, value.replace(new, old) if new else value)
        for name, value in headers
        if name not in VOLATILE
    ]
    return command, sorted(kept), body


def _shown(parts: Sequence[Part]) -> str:
    shown = [f"<{part.name}>" if isinstance(part, Secret) else f"<{part.header}>" if isinstance(part, Ref) else  # noqa: E501
             repr(part[:300])[2:-1] + ("…" if len(part) > 300 else "") for part in parts]  # fmt: skip  # noqa: E501
    return "".join(shown)


def main(
    play: Callable[[Player], None],
    expected: Mapping[str, Any],
    recorded: Mapping[str, Any],
    fields: Mapping[str, Any],
) -> int:
    """The command line of a script: plays, prints, judges. Returns 0 (came as expected), 1 (did
    not) or 2 (unknown)."""
    parser = argparse.ArgumentParser(description=fields["what"])
    first, *others = fields["acceptors"]
    parser.add_argument("address", metavar="HOST:PORT", help=f"the broker's acceptor ({first})")
    parser.add_argument("--login", default="")
    parser.add_argument("--passcode", default="")
    parser.add_argument(
        "--acceptor", action="append", default=[], metavar="NAME=HOST:PORT", help=", ".join(others)
    )
    given = parser.parse_args()
    named = dict(option.partition("=")[::2] for option in given.acceptor) | {first: given.address}
    missing = [option for option in others if option not in named]
    if missing:
        parser.error(
            f"this conversation uses other acceptors too: add --acceptor {missing[0]}=HOST:PORT"
        )
    endpoints = {}
    for name, text in named.items():
        host, _, port = text.rpartition(":")
        if not host or not port.isdecimal():
            parser.error(f"{text!r} should be HOST:PORT")
        endpoints[name] = (host.strip("[]"), int(port))
    player = Player(endpoints, given.login, given.passcode, fields["mark"])
    try:
        play(player)
    except OSError as problem:
        show(f"cannot connect: {problem}")
        return 2
    finally:
        player.close()
    held, words = decide(expected, recorded, player)
    show()
    for requirement in fields["requirements"]:
        show(
            f"{requirement['id']} ({requirement['level']}, {requirement['source']}):"
            f" {requirement['statement']}"
        )
    show(f"When it was recorded: {fields['detail']}")
    show(f"Now: {words}")
    for line in player.late:
        show(f"  did not come this time: {line}")
    show(
        {
            True: "It came as expected.",
            False: "It is violated again.",
            None: "This cannot be decided here.",
        }[held]
    )
    return {True: 0, False: 1, None: 2}[held]


__all__ = ["Came", "Frames", "Part", "Player", "Ref", "Secret", "decide", "main"]
