"""Artemis since 2.36: a STOMP message is delivered twice because the broker acknowledges a message
of another subscription too late.

Needs nothing but Python, and an Artemis with an acceptor for STOMP. One connection has two
subscriptions in auto mode, to two queues. While messages of the first are arriving, it ends
that subscription. When this is confirmed, one message is sent to the second queue. It should arrive
once: in this mode a message counts as received as soon as it is sent (STOMP 1.2, SUBSCRIBE).

In auto mode, StompSession acknowledges a message after sending it, on the event loop, in the
session's only transaction. If the consumer is closed by then, ServerSessionImpl.findConsumer marks
the transaction for rollback and throws, so StompSession never calls commit(), and no new
transaction begins. The connection's next message, of any subscription, is acknowledged in that
transaction: its commit fails, and the message is rolled back and delivered again.

    python3 artemis_late_auto_acknowledgement.py HOST:STOMP-PORT [LOGIN PASSCODE]

Exits with 0 if no message arrived twice in TURNS turns, 1 if one did, and 2 if it cannot tell.
"""

# ruff: noqa: T201 - it prints for a reader

from __future__ import annotations

import os
import socket
import sys

PATIENCE_S = 10.0
"""How long an answer may take, in seconds."""
QUIET_S = 0.3
"""Seconds of silence that end a turn."""
TURNS = 100
SENT = 20
"""Messages sent to the first queue in each turn."""


class Client:
    """A connection that speaks STOMP 1.2."""

    def __init__(self, address: tuple[str, int], login: str, passcode: str) -> None:
        self.socket = socket.create_connection(address, PATIENCE_S)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.unread = b""
        self.send(
            "CONNECT",
            {"accept-version": "1.2", "host": "localhost", "login": login, "passcode": passcode},
        )
        if not self.next(PATIENCE_S).startswith("CONNECTED"):
            print("the broker refused the connection")
            sys.exit(2)

    def send(self, command: str, headers: dict[str, str], body: bytes = b"") -> None:
        lines = [command, *(f"{name}:{value}" for name, value in headers.items())]
        self.socket.sendall("\n".join(lines).encode() + b"\n\n" + body + b"\0")

    def next(self, patience: float) -> str:
        """Return the next frame; an empty one if the connection ended or none arrived in time."""
        self.socket.settimeout(patience)
        while b"\0" not in self.unread:
            try:
                more = self.socket.recv(65536)
            except TimeoutError:
                return ""
            if not more:
                return ""
            self.unread += more
        frame, _, self.unread = self.unread.partition(b"\0")
        return frame.lstrip(b"\n").decode("utf-8", "replace")

    def confirmed(self, receipt: str) -> list[str]:
        """Return the frames that arrive before this RECEIPT."""
        before = []
        while (
            not (frame := self.next(PATIENCE_S)).startswith("RECEIPT")
            or f"receipt-id:{receipt}" not in frame
        ):
            if not frame or frame.startswith("ERROR"):
                print(f"expected a receipt, got {frame[:200]!r}")
                sys.exit(2)
            before.append(frame)
        return before


def turn(consumer: Client, producer: Client, name: str) -> list[str]:
    """Return the frames that delivered the second queue's only message."""
    first, second = f"{name}-first", f"{name}-second"
    for queue in (first, second):
        about = {
            "id": queue,
            "destination": queue,
            "ack": "auto",
            "subscription-type": "ANYCAST",
            "receipt": queue,
        }
        consumer.send("SUBSCRIBE", about)
        consumer.confirmed(queue)
    for _ in range(SENT):
        producer.send("SEND", {"destination": first, "destination-type": "ANYCAST"}, b"before")
    if not consumer.next(PATIENCE_S).startswith("MESSAGE"):
        print("the first queue's messages did not arrive")
        sys.exit(2)
    consumer.send("UNSUBSCRIBE", {"id": first, "receipt": "over"})
    consumer.confirmed("over")
    producer.send(
        "SEND", {"destination": second, "destination-type": "ANYCAST", "receipt": "sent"}, b"once"
    )
    producer.confirmed("sent")
    came = []
    while frame := consumer.next(QUIET_S):
        if f"subscription:{second}" in frame:
            came.append(frame)
    consumer.send("UNSUBSCRIBE", {"id": second, "receipt": "end"})
    consumer.confirmed("end")
    return came


def main() -> int:
    host, _, port = sys.argv[1].rpartition(":")
    login, passcode = sys.argv[2:4] if len(sys.argv) > 3 else ("admin", "admin")
    consumer, producer = (Client((host, int(port)), login, passcode) for _ in range(2))
    twice = []
    for number in range(TURNS):
        came = turn(consumer, producer, f"late-{os.getpid()}-{number}")
        if not came:
            print(f"turn {number}: the message did not arrive")
            return 2
        if len(came) > 1:
            twice.append(came)
    print(f"in {len(twice)} of {TURNS} turns a message sent once arrived more than once")
    if twice:
        print(*twice[0], sep="\n--\n")
    return 1 if twice else 0


if __name__ == "__main__":
    sys.exit(main())
