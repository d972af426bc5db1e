"""The harness's end of a driver. A driver is a small program that makes a client library on trial
follow a case, and passes on what the library reports. Driver and harness exchange one JSON object
per line over the driver's standard input and output (``docs/reference/client-drivers.md``):
``{"do": "send", …}`` to the driver, ``{"saw": "message", …}`` from it."""

import base64
import json
from typing import Any

from brokerproof.harness.clients.client_event import ClientEvent, event_named
from brokerproof.harness.model.enums import CloseHow
from brokerproof.harness.model.time import Instant, seconds
from brokerproof.harness.protocols.conversation import Conversation
from brokerproof.harness.trace.events import Noted

READY_WITHIN = seconds(30)
"""The time within which a driver must have loaded its library."""
UNREADABLE = "unreadable"


class Driver(Conversation[ClientEvent]):
    """One running driver. A report is an event with the name that the driver gave it."""

    protocol = "DRIVER"
    _unfinished = b""

    def decode(self, at: Instant, data: bytes) -> None:
        *lines, self._unfinished = (self._unfinished + data).split(b"\n")
        for line in filter(None, lines):
            event = _event(line)
            self.judge.record(
                Noted(
                    at_ns=at, detail=f"the client reports: {line.decode('utf-8', 'replace')[:400]}"
                )
            )
            self.inbox.append(event)

    def channel_closed(self, at: Instant, how: CloseHow) -> None:
        super().channel_closed(at, CloseHow.EOF)  # a killed driver resets the pipe

    def fatal(self, frame: ClientEvent) -> bool:
        return frame.step in ("failed", UNREADABLE)

    def words(self, frame: ClientEvent) -> str:
        return frame.brief()

    def instead(self) -> str:
        """Return in words what the client reported instead, ignoring reports that a call
        returned."""
        told = [event.brief() for event in self.inbox if event.step != "did"]
        return f"the client reported {'; '.join(told[:3]) or 'nothing'}"

    def do(self, what: str, **arguments: Any) -> None:
        """Send a command without waiting; :meth:`done` also waits for the answer."""
        line = json.dumps({"do": what, **arguments}, ensure_ascii=False)
        self.judge.record(
            Noted(at_ns=self.world.now(), detail=f"the client is asked to: {line}"[:400])
        )
        self.write(line.encode() + b"\n", as_event=False)

    def done(self, what: str, **arguments: Any) -> None:
        """Send a command and wait until the library's call has returned. Raises
        :class:`ControlFailed` if it does not."""
        self.do(what, **arguments)
        self.expect(event_named("did", do=what))

    def tried(self, what: str, **arguments: Any) -> bool:
        """Send a command that the library may refuse; return True if the library's call
        returned."""
        self.do(what, **arguments)
        self.watch_for(event_named("did", do=what))
        refused = self.take(event_named("failed", do=what))
        return refused is None

    def reports(self, step: str) -> list[ClientEvent]:
        return [event for event in self.inbox if event.step == step]


def body_of(message: ClientEvent) -> bytes:
    if "base64" in message.detail:
        return base64.b64decode(message.detail["base64"])
    return str(message.detail.get("body", "")).encode()


def body_fields(body: bytes) -> dict[str, str]:
    try:
        return {"body": body.decode()}
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(body).decode()}


def _event(line: bytes) -> ClientEvent:
    try:
        values = json.loads(line)
        values.pop("at", None)  # the client's own clock, only for readers of the trace
        return ClientEvent(str(values.pop("saw")), values)
    except (ValueError, KeyError, TypeError, AttributeError):
        return ClientEvent(UNREADABLE, {"line": line.decode("utf-8", "replace")[:300]})


def ready(driver: Driver) -> ClientEvent:
    """Wait until ``driver`` has loaded its library. Raises :class:`ControlFailed` if it does
    not."""
    return driver.expect(event_named("ready"), within=READY_WITHIN)
