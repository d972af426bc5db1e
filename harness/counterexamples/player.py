"""Replays a recorded STOMP conversation byte for byte and keeps what arrives.

This file needs only Python 3.11. ``brokerproof replay`` uses it. Every script of a counterexample
contains a copy, together with ``decision.py``, which judges what arrived.

Values that differ between runs are filled in during replay: ACK and NACK take their ids from the
MESSAGE received this time, and destination names get a new suffix of the same length."""

from __future__ import annotations

import secrets
import select
import socket
import struct
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

PATIENCE_S = 10.0
"""The longest time that a step waits for a frame that arrived in the recording."""


def show(text: str = "") -> None:
    """Print a line and flush the output."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


class Ref(NamedTuple):
    """Bytes known only during replay: a header of the ``nth`` MESSAGE (from 1) on ``conn``."""

    conn: int
    nth: int
    header: str


class Secret(NamedTuple):
    """The bytes from ``start`` to ``end`` of the given login or passcode."""

    name: str
    start: int = 0
    end: int | None = None


Part = bytes | Ref | Secret


class Came(NamedTuple):
    """A received frame, still escaped. ``at`` is in seconds. ``size`` is in bytes, including the
    NUL and an end of line directly after that."""

    at: float
    command: str
    headers: list[tuple[str, str]]
    body: bytes
    size: int = 0

    def get(self, name: str) -> str | None:
        return next((value for header, value in self.headers if header == name), None)

    def line(self) -> str:
        headers = " ".join(f"{name}:{value}" for name, value in self.headers)
        body = f" {self.body[:80]!r}" + (
            f"… ({len(self.body)} bytes)" if len(self.body) > 80 else ""
        )
        line = f"{self.command} {headers}{body if self.body else ''}".rstrip()
        return line.encode("utf-8", "replace").decode()


class Frames:
    """Splits bytes into frames without judging them; an incomplete frame stays in the buffer."""

    def __init__(self) -> None:
        self._pending = bytearray()

    def feed(self, at: float, data: bytes) -> list[Came]:
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
            behind = self._pending[end + 1 : end + 3]
            size = end + 1 + (1 if behind[:1] == b"\n" else 2 if behind == b"\r\n" else 0)
            arrivals.append(Came(at, command, headers, bytes(self._pending[start:end]), size))
            del self._pending[: end + 1]


class Diverged(Exception):
    """The conversation diverged from the recording before the decisive point, as the message
    describes."""


class Settled(NamedTuple):
    """An ACK or NACK of the ``nth`` MESSAGE (from 1) of ``conn``, sent after ``seen`` MESSAGEs had
    arrived there."""

    conn: int
    nth: int
    seen: int


class Player:
    """Performs the steps of a recorded conversation over sockets. ``say`` receives a line for each
    step. ``recorded`` is what arrived in the recording: ``came`` has the frames of each connection
    (command, headers, body), and ``ended`` has the connections that the broker closed. Steps raise
    :class:`Diverged`."""

    def __init__(
        self,
        endpoints: Mapping[str, tuple[str, int]],
        login: str,
        passcode: str,
        mark: bytes = b"",
        say: Callable[[str], None] | None = None,
        recorded: Mapping[str, Any] | None = None,
    ) -> None:
        recorded = recorded or {"came": {}, "ended": []}
        self._endpoints, self._say = endpoints, say or show
        self._secrets = {"login": login.encode(), "passcode": passcode.encode()}
        self.mark = mark
        self.new_mark = secrets.token_hex(len(mark))[: len(mark)].encode()
        self.came: dict[int, list[Came]] = {}
        self.ended: dict[int, tuple[float, str]] = {}
        self.marks: dict[str, float] = {}
        self.heard: dict[int, list[float]] = {}
        """The instants at which bytes arrived (heartbeats included), by connection."""
        self.settled: list[Settled] = []
        self.late: list[str] = []
        """Frames in the recording that did not arrive in the replay."""
        self._recorded = {
            int(conn): [Came(0, *frame) for frame in frames]
            for conn, frames in recorded["came"].items()
        }
        self._ended_then = frozenset(recorded["ended"])
        self._step = 0
        self._acted_at = 0.0
        """The instant of our last step. The broker's time to answer begins here."""
        self._answered_from: dict[int, int] = {}
        """The number of frames that had arrived by that instant, by connection."""
        self._in_vain = 0.0
        """The seconds since that instant that were spent waiting in vain."""
        self._readers: dict[int, Frames] = {}
        self._sockets: dict[int, socket.socket] = {}
        self._gone: set[int] = set()
        self._reset: set[int] = set()

    # the verbs

    def open(self, conn: int, acceptor: str) -> None:
        self._act()
        self.came[conn], self.heard[conn], self._readers[conn] = [], [], Frames()
        self._dial(conn, acceptor)
        self._tell(conn, f"opened to {acceptor}")

    def send(self, conn: int, *parts: Part, mark: str = "") -> None:
        """Write these bytes in one call. ``mark`` is a name for the instant."""
        if self._begin_send(conn, parts, mark):
            self._write(conn, b"".join(self._bytes_of(part) for part in parts))

    def receive(
        self,
        conn: int,
        count: int,
        like: str,
        *,
        needed: bool = False,
        within: float = PATIENCE_S,
        mark: str = "",
    ) -> None:
        """Wait, at most ``within`` seconds from our last step, for the frame that was number
        ``count`` on this connection in the recording. ``like`` is the recorded frame. Without a
        ``needed`` frame, the decisive point cannot be reached."""
        self._step += 1
        began = self.now()
        self._wait(
            max(began, self._acted_at + within),
            lambda: self._find(conn, count) is not None or conn in self.ended,
        )
        frame = self._find(conn, count)
        if frame is not None:
            if mark:
                self.marks[mark] = frame.at
            return
        self._in_vain += self.now() - began
        if needed:
            raise self._diverged(conn, f"{like} did not arrive")
        self.late.append(f"connection {conn}: {like}")
        self._tell(conn, f"… did not arrive this time: {like}")

    def ends(self, conn: int, how: str, *, within: float = PATIENCE_S, mark: str = "") -> None:
        """Wait until the broker closes the connection as in the recording (``how``), at most
        ``within`` seconds from our last step."""
        self._step += 1
        began = self.now()
        self._wait(max(began, self._acted_at + within), lambda: conn in self.ended)
        if conn not in self.ended:
            self._in_vain += self.now() - began
            self.late.append(f"connection {conn}: the end ({how})")
            self._tell(conn, f"… the broker did not end it this time ({how})")
        elif mark:
            self.marks[mark] = self.ended[conn][0]

    def pause(self, seconds: float) -> None:
        """Let time pass, less the time spent waiting in vain since our last step."""
        self._step += 1
        left = max(0.0, seconds - self._in_vain)
        self._say(f"{self.now():9.3f}  pause of {left:g} s")
        self._wait(self.now() + left, lambda: False)

    def leave(self, conn: int, how: str) -> None:
        """Close the connection from our side: EOF (orderly) or RESET."""
        self._act()
        self._tell(conn, f"ended by us ({how})")
        self._gone.add(conn)
        self._hang_up(conn, how)

    # what came

    def arrived(self, conn: int, data: bytes) -> None:
        at = self.now()
        self.heard[conn].append(at)
        for frame in self._readers[conn].feed(at, data):
            self.came[conn].append(frame)
            self._tell(conn, f"← {frame.line()}")

    def closed(self, conn: int, how: str) -> None:
        """Record that the broker closed the connection."""
        self.ended[conn] = (self.now(), how)
        self._tell(conn, f"✕ ended by the broker ({how})")

    def messages(self, conn: int) -> list[Came]:
        return [frame for frame in self.came.get(conn, ()) if frame.command == "MESSAGE"]

    def renamed(self, data: bytes) -> bytes:
        """Return recorded bytes with the suffix of this run in destination names."""
        return data.replace(self.mark, self.new_mark) if self.mark else data

    def _act(self) -> None:
        self._step += 1
        self._acted_at, self._in_vain = self.now(), 0.0
        self._answered_from = {conn: len(frames) for conn, frames in self.came.items()}

    def _begin_send(self, conn: int, parts: Sequence[Part], mark: str) -> bool:
        """Record a step that writes ``parts``; return True if the connection is writable."""
        for part in parts:
            if isinstance(part, Ref) and self._referred(part) is None:
                raise self._diverged(
                    part.conn,
                    f"the next frame needs the header {part.header} of MESSAGE number {part.nth},"
                    " which did not arrive",
                )
        if conn in self.ended and conn not in self._ended_then:
            raise self._diverged(conn, "the connection ended before the next step could write")
        self._act()
        for part in parts:
            if isinstance(part, Ref):
                self.settled.append(Settled(part.conn, part.nth, len(self.messages(part.conn))))
        if mark:
            self.marks[mark] = self.now()
        shown = [self.renamed(part) if isinstance(part, bytes) else part for part in parts]
        self._tell(conn, f"→ {_shown(shown)}")
        return conn not in self._gone and conn not in self.ended

    def _find(self, conn: int, count: int) -> Came | None:
        """Return the received frame that corresponds to frame number ``count`` of ``conn`` in the
        recording."""
        then = self._recorded.get(conn, [])[:count]
        if len(then) < count:
            return None
        alike = [frame for frame in self.came[conn] if self._is(frame, then[-1])]
        nth = sum(_key(frame) == _key(then[-1]) for frame in then)
        return alike[nth - 1] if nth <= len(alike) else None

    def _is(self, frame: Came, recorded: Came) -> bool:
        command, value = _key(recorded)
        return _key(frame) == (command, self.renamed(value))

    def _diverged(self, conn: int, wanted: str) -> Diverged:
        """Return the exception for a conversation that cannot continue as recorded."""
        since = self.came.get(conn, [])[self._answered_from.get(conn, 0) :]
        instead = "; ".join(frame.line()[:200] for frame in since[:3]) or "nothing"
        if len(since) > 3:
            instead += f" and {len(since) - 3} more"
        gone = ", and the broker had ended the connection" if conn in self.ended else ""
        return Diverged(
            f"the conversation took another course at step {self._step}: on connection {conn}"
            f" {wanted}, unlike when this was recorded; {instead} arrived{gone}"
        )

    def _referred(self, ref: Ref) -> str | None:
        messages = self.messages(ref.conn)
        return messages[ref.nth - 1].get(ref.header) if ref.nth <= len(messages) else None

    def _bytes_of(self, part: Part) -> bytes:
        if isinstance(part, Secret):
            return self._secrets[part.name][part.start : part.end]
        if isinstance(part, Ref):
            return (self._referred(part) or "").encode("utf-8", "surrogateescape")
        return self.renamed(part)

    def _tell(self, conn: int, text: str) -> None:
        self._say(f"{self.now():9.3f}  {conn}  {text}")

    # sockets; ``brokerproof replay`` uses others

    _began = 0.0

    def now(self) -> float:
        """The number of seconds since the first call."""
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
            pass  # the broker closed it; reading shows how
        except OSError:
            self._reset.add(conn)  # the kernel reports this once; later reads see an orderly close

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
        for sock in self._sockets.values():
            sock.close()


def _key(frame: Came) -> tuple[str, bytes]:
    """Return the command and those headers that distinguish a frame from similar ones in every
    run."""
    if frame.command == "RECEIPT":
        return frame.command, (frame.get("receipt-id") or "").encode("utf-8", "surrogateescape")
    return frame.command, frame.body if frame.command == "MESSAGE" else b""


def _shown(parts: Sequence[Part]) -> str:
    shown = [f"<{part.name}>" if isinstance(part, Secret) else f"<{part.header}>" if isinstance(part, Ref) else  # noqa: E501
             repr(part[:300])[2:-1] + ("…" if len(part) > 300 else "") for part in parts]  # fmt: skip  # noqa: E501
    return "".join(shown)
