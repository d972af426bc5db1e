"""STOMP 1.2: a header value after which a broker neither obeys the frame nor sends an ERROR.

Needs nothing but Python, and a broker with STOMP.

    python3 stomp_headers.py FRAME HEADER VALUE HOST:PORT DESTINATION [LOGIN PASSCODE]

A client connects, subscribes to DESTINATION in client mode, sends one message to it, and
disconnects; all but CONNECT request a receipt. In FRAME (CONNECT, SUBSCRIBE or SEND), HEADER has
VALUE. "If the server cannot successfully process the SEND frame for any reason, the server MUST
send the client an ERROR frame and then close the connection"; the specification says the same of
SUBSCRIBE. After a confirmed SUBSCRIBE "any messages received on the subscribed destination will
henceforth be delivered as MESSAGE frames". So an ERROR arrives, or the receipts and the message do.

Brokers that break this (docs/reference/differential-search.md):

    SEND content-length -5                       Artemis 2.56, RabbitMQ 3.10 and 4.0
    SEND priority -1                             Artemis 2.56
    SEND priority 99999999999                    ActiveMQ 6.3.1
    SEND destination ''                          ActiveMQ 6.3.1
    CONNECT heart-beat 0,9999999999              RabbitMQ 3.10 and 4.0

Exits with 0 if the broker keeps these sentences, with 1 if it breaks one, with 2 if it cannot tell.
"""

# ruff: noqa: T201 - it prints for a reader

from __future__ import annotations

import socket
import sys
from collections.abc import Iterator
from contextlib import suppress

PATIENCE_S = 5.0
"""How long an answer may take, in seconds."""
BODY = b"a body"


class Client:
    """A connection whose frames have one header replaced."""

    def __init__(self, endpoint: str, frame: str, header: str, value: str) -> None:
        host, _, port = endpoint.rpartition(":")
        self._socket = socket.create_connection((host, int(port)), PATIENCE_S)
        self._replaced = frame, header, value
        self._frames = self._read()

    def send(self, command: str, headers: dict[str, str], body: bytes = b"") -> None:
        frame, header, value = self._replaced
        headers = headers | ({header: value} if command == frame else {})
        lines = [command, *(f"{name}:{text}" for name, text in headers.items())]
        with suppress(OSError):  # the connection has ended: answers reports that
            self._socket.sendall("\n".join(lines).encode() + b"\n\n" + body + b"\0")

    def answers(self, *commands: str) -> str:
        """Return what is wrong if frames of ``commands`` do not arrive; "" if they arrive, in any
        order, or an ERROR arrives instead."""
        missing = list(commands)
        while missing:
            try:
                command = next(self._frames, None)
            except TimeoutError:
                return f"no {' and no '.join(missing)} within {PATIENCE_S:g} s"
            except OSError:
                command = None
            if command is None:
                return f"the connection ended without an ERROR, and without {' and '.join(missing)}"
            if command == "ERROR":
                return command
            if command in missing:
                missing.remove(command)
        return ""

    def _read(self) -> Iterator[str]:
        """Yield the commands of the frames that arrive. The bodies here contain no NUL."""
        unread = b""
        while received := self._socket.recv(65_536):
            *frames, unread = (unread + received).split(b"\0")
            yield from (frame.lstrip(b"\n").split(b"\n", 1)[0].decode() for frame in frames)


def main() -> int:
    """Play the conversation; return the exit status."""
    frame, header, value, endpoint, destination, *login = sys.argv[1:]
    client = Client(endpoint, frame, header, value)
    names = dict(zip(("login", "passcode"), login, strict=False))
    subscription = {"id": "1", "destination": destination, "ack": "client", "receipt": "subscribed"}
    message = {"destination": destination, "content-length": str(len(BODY)), "receipt": "sent"}
    steps: list[tuple[str, dict[str, str], bytes, tuple[str, ...]]] = [
        ("CONNECT", {"accept-version": "1.2", "host": "/", **names}, b"", ("CONNECTED",)),
        ("SUBSCRIBE", subscription, b"", ("RECEIPT",)),
        ("SEND", message, BODY, ("RECEIPT", "MESSAGE")),
        ("DISCONNECT", {"receipt": "bye"}, b"", ("RECEIPT",)),
    ]
    reached = False
    for command, headers, body, replies in steps:
        reached = reached or command == frame
        if (command, header, value) == ("SEND", "destination", ""):
            replies = ("RECEIPT",)  # nobody can subscribe to an empty destination
        client.send(command, headers, body)
        outcome = client.answers(*replies)
        if outcome and not reached:
            print(f"{command}: {outcome}")
            return 2
        if outcome:
            print(f"{frame} with {header}:{value}, answer to {command}: {outcome}")
            return int(outcome != "ERROR")
    print(f"{frame} with {header}:{value}: everything worked")
    return 0


if __name__ == "__main__":
    sys.exit(main())
