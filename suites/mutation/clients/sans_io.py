"""The common part of the small clients: a driver, a connection, and timers, without sockets or a
clock."""

import base64
import json
from typing import Any

from brokerproof.harness.clients.driver import body_fields
from brokerproof.harness.model.broker_io import (
    BytesReceived,
    Close,
    Connected,
    Effect,
    Input,
    PeerGone,
    SendBytes,
    TimerFired,
)
from brokerproof.harness.model.time import Duration, Instant


class Refused(Exception):
    """The client cannot do what its application requests."""


class SansIoClient:
    """One driver, with one connection after the other."""

    driver = 1
    """The connection that carries the line protocol."""

    def __init__(self) -> None:
        self.now: Instant = 0
        self.effects: list[Effect] = []
        self.wire: int | None = None
        self.commands = b""
        self.connecting: dict[str, Any] = {}
        self.connected = False
        self.leaving = False
        self.sends_every: Duration = 0
        self.awaits_every: Duration = 0
        self.sent_at: Instant = 0
        self.heard_at: Instant = 0
        self.busy_for: Duration = 0
        self.works_until: Instant | None = None
        self.waiting: list[tuple[Any, bytes]] = []
        self.received: list[Any] = []

    # what a protocol adds

    def dialled(self) -> None:
        raise NotImplementedError

    def receive(self, data: bytes) -> None:
        """Read the bytes that were received."""
        raise NotImplementedError

    def beat(self) -> None:
        """Write a heartbeat."""
        raise NotImplementedError

    def headers_of(self, about: Any) -> dict[str, str]:
        """Return the headers to report with a message."""
        raise NotImplementedError

    # the world's side

    def handle(self, now: Instant, event: Input) -> list[Effect]:
        self.now, self.effects = now, []
        match event:
            case Connected(conn=self.driver):
                self.report("ready", client="small", version="1")
            case Connected(conn=conn):
                self.wire = conn
                self.dialled()
            case BytesReceived(conn=self.driver, data=data):
                *lines, self.commands = (self.commands + data).split(b"\n")
                for line in lines:
                    self.obey(json.loads(line))
            case BytesReceived(conn=self.wire, data=data):
                self.receive(data)
            case PeerGone(conn=self.wire):
                self.lose()
            case TimerFired():
                self.tick()
            case _:
                pass
        return self.effects

    def next_deadline(self) -> Instant | None:
        dues = [self.works_until, self.beat_due(), self.leave_due()]
        return min((due for due in dues if due is not None), default=None)

    def tick(self) -> None:
        if self.works_until is not None and self.now >= self.works_until:
            self.works_until = None
            self.report("worked")
            waiting, self.waiting = self.waiting, []
            for headers, body in waiting:
                self.hand_out(headers, body)
        beat, leave = self.beat_due(), self.leave_due()
        if beat is not None and self.now >= beat:
            self.beat()
        if leave is not None and self.now >= leave:
            self.give_up()

    # heartbeats

    patience = 2
    """The number of silent intervals after which the client leaves; 0: never."""

    def beat_due(self) -> Instant | None:
        alive = self.connected and self.wire is not None
        return self.sent_at + self.sends_every if alive and self.sends_every else None

    def leave_due(self) -> Instant | None:
        alive = self.connected and self.wire is not None
        if not alive or not self.awaits_every or not self.patience:
            return None
        return self.heard_at + self.patience * self.awaits_every

    # the driver's side

    def report(self, saw: str, **fields: Any) -> None:
        line = json.dumps({"saw": saw, "at": self.now, **fields}).encode() + b"\n"
        self.effects.append(SendBytes(self.driver, line))

    def obey(self, command: dict[str, Any]) -> None:
        name = command.pop("do")
        if "base64" in command:
            command["body"] = base64.b64decode(command.pop("base64"))
        try:
            getattr(self, f"do_{name}")(**command)
        except Refused as problem:
            self.report("failed", do=name, problem=str(problem))
        else:
            self.report("did", do=name)

    def hand_out(self, about: Any, body: bytes) -> None:
        """Report a message and begin to work on it if requested, or keep the message while the
        listener works."""
        if self.works_until is not None:
            self.waiting.append((about, body))
            return
        self.received.append(about)
        number, headers = len(self.received), self.headers_of(about)
        self.report("message", number=number, headers=headers, **body_fields(body))
        if self.busy_for:
            self.works_until, self.busy_for = self.now + self.busy_for, 0

    def do_connect(self, **fields: Any) -> None:
        self.connecting = fields
        self.report("dials")

    def do_work(self, ms: int) -> None:
        self.busy_for = ms * 1_000_000

    # the wire's side

    def heard(self, data: bytes) -> None:
        self.heard_at = self.now

    def write(self, data: bytes) -> None:
        if self.wire is not None:
            self.sent_at = self.now
            self.effects.append(SendBytes(self.wire, data))

    def end(self) -> None:
        if self.wire is not None:
            self.effects.append(Close(self.wire))
            self.lose()

    def give_up(self) -> None:
        """Leave a server that is silent."""
        self.end()

    def lose(self) -> None:
        self.wire, self.connected = None, False
        self.report("disconnected")
