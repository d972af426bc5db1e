"""ActiveMQ Classic: if a producer's messages have to wait for room, its later messages overtake
them.

Needs nothing but Python, and a broker with STOMP and queues that have a small limit and keep
waiting messages in memory:

    <policyEntry queue="full.vm.&gt;" memoryLimit="20480">
      <pendingQueuePolicy><vmQueueCursor/></pendingQueuePolicy>
    </policyEntry>

(fixtures/brokers/activemq/flow.xml). One connection sends 150 messages to a queue, each with a
receipt, without waiting for the receipts; another connection consumes and acknowledges them
meanwhile. The documentation says that with a single consumer on a queue the order of a single
producer's messages is preserved.

    python3 activemq_flow_control_loses_order.py HOST:PORT [LOGIN PASSCODE]

Repeats this up to 40 times with new queues. Exits with 0 if all messages arrived in order, with 1
if some did not, and with 2 if it cannot tell. On a queue without flow control (full.off. in
flow.xml) the messages arrive in order.
"""

# ruff: noqa: T201 - it prints for a reader

from __future__ import annotations

import os
import socket
import sys
from itertools import pairwise

PATIENCE_S = 10.0
"""How long a frame may take, in seconds."""
COUNT, SIZE, ROUNDS = 150, 500, 40


class Connection:
    """A STOMP 1.2 connection that reads one frame at a time."""

    def __init__(self, address: str, login: list[str]) -> None:
        host, _, port = address.rpartition(":")
        self.socket = socket.create_connection((host, int(port)), PATIENCE_S)
        self.data = b""
        names = dict(zip(("login", "passcode"), login, strict=False))
        self.send("CONNECT", {"accept-version": "1.2", "host": "localhost", **names})
        if self.frame()[0] != "CONNECTED":
            raise SystemExit(2)

    def send(self, command: str, headers: dict[str, str], body: bytes = b"") -> None:
        lines = [command, *(f"{name}:{value}" for name, value in headers.items())]
        self.socket.sendall("\n".join(lines).encode() + b"\n\n" + body + b"\0")

    def frame(self) -> tuple[str, dict[str, str], bytes]:
        while b"\n\n" not in self.data.lstrip(b"\n"):
            self._more()
        head, _, self.data = self.data.lstrip(b"\n").partition(b"\n\n")
        command, *lines = head.decode().split("\n")
        headers = dict(line.partition(":")[::2] for line in lines)
        size = int(headers.get("content-length", -1))
        while (len(self.data) <= size) if size >= 0 else (b"\0" not in self.data):
            self._more()
        end = size if size >= 0 else self.data.index(b"\0")
        body, self.data = self.data[:end], self.data[end + 1 :]
        return command, headers, body

    def _more(self) -> None:
        data = self.socket.recv(65_536)
        if not data:
            print("the broker closed a connection")
            raise SystemExit(2)
        self.data += data


def came(address: str, login: list[str], queue: str) -> list[int]:
    """Return the numbers of the messages in their order of arrival."""
    consumer, producer = Connection(address, login), Connection(address, login)
    consumer.send(
        "SUBSCRIBE",
        {"id": "1", "destination": queue, "ack": "client-individual", "receipt": "subscribed"},
    )
    consumer.frame()
    for number in range(COUNT):
        headers = {"destination": queue, "receipt": f"r{number}", "content-length": str(SIZE)}
        producer.send("SEND", headers, (b"%d." % number).ljust(SIZE, b"."))
    found: list[int] = []
    while len(found) < COUNT:
        command, headers, body = consumer.frame()
        if command == "MESSAGE":
            found.append(int(body.partition(b".")[0]))
            consumer.send("ACK", {"id": headers["ack"]})
    return found


def main(address: str, *login: str) -> int:
    """Play the conversation; return the exit status."""
    for attempt in range(ROUNDS):
        try:
            found = came(address, list(login), f"/queue/full.vm.order-{os.getpid()}-{attempt}")
        except TimeoutError:
            print(f"not all of the {COUNT} messages arrived")
            return 2
        late = [(before, after) for before, after in pairwise(found) if after < before]
        if late:
            print(
                f"round {attempt + 1}: "
                + "; ".join(
                    f"message {after} arrived after message {before}" for before, after in late
                )
            )
            return 1
    print(f"in {ROUNDS} rounds all messages arrived in order")
    return 0


if __name__ == "__main__":
    if len(sys.argv) not in (2, 4):
        sys.exit(__doc__)
    sys.exit(main(*sys.argv[1:]))
