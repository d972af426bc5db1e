"""ActiveMQ Classic: a message that waits for room in a full store blocks its whole connection,
acknowledgements included.

Needs nothing but Python, and a broker with STOMP and a small store, for instance

    <systemUsage><systemUsage><storeUsage><storeUsage limit="2
    mb"/></storeUsage></systemUsage></systemUsage> <persistenceAdapter><kahaDB directory="kahadb"
    journalMaxFileLength="256kb" cleanupInterval="500"/></persistenceAdapter>

(fixtures/brokers/activemq/usage.xml). One connection consumes from a queue and sends persistent
messages to it, each with a receipt, until one is not confirmed. Then it acknowledges what it
consumed, and sends a non-persistent message, for which there is room, to another queue. The
documentation says that the broker slows down producers on a shared connection individually when a
memory, temp-store or file-store limit is exceeded, and does so for all synchronous sends. So the
acknowledgements should take effect, more messages should arrive, and the non-persistent message
should be confirmed.

    python3 activemq_full_store_stalls_a_connection.py HOST:PORT [LOGIN PASSCODE]

Exits with 0 if all this happens, with 1 if the connection stalls, and with 2 if it cannot tell.
"""

# ruff: noqa: T201 - it prints for a reader

from __future__ import annotations

import socket
import sys

PATIENCE_S = 5.0
"""How long an answer may take, in seconds."""
BODY = b"x" * 10_000
MOST = 50_000
"""The most messages to send: more than 500 MB."""


class Connection:
    """A STOMP 1.2 connection that reads one frame at a time."""

    def __init__(self, address: str, login: list[str]) -> None:
        host, _, port = address.rpartition(":")
        self.socket = socket.create_connection((host, int(port)), PATIENCE_S)
        self.data = b""
        self.waiting: list[tuple[str, dict[str, str]]] = []
        names = dict(zip(("login", "passcode"), login, strict=False))
        self.send("CONNECT", {"accept-version": "1.2", "host": "localhost", **names})
        if self.next("CONNECTED") is None:
            raise SystemExit(2)

    def send(self, command: str, headers: dict[str, str], body: bytes = b"") -> None:
        lines = [command, *(f"{name}:{value}" for name, value in headers.items())]
        self.socket.sendall("\n".join(lines).encode() + b"\n\n" + body + b"\0")

    def message(self, queue: str, receipt: str, persistent: bool) -> None:
        headers = {"destination": queue, "receipt": receipt, "persistent": str(persistent).lower()}
        self.send("SEND", {**headers, "content-length": str(len(BODY))}, BODY)

    def next(self, command: str, **headers: str) -> dict[str, str] | None:
        """Return the headers of the next frame with this command and these headers; None if no such
        frame arrives in time."""
        while True:
            for frame in self.waiting:
                if frame[0] == command and headers.items() <= frame[1].items():
                    self.waiting.remove(frame)
                    return frame[1]
            try:
                self.waiting.append(self._frame())
            except TimeoutError:
                return None

    def _frame(self) -> tuple[str, dict[str, str]]:
        head = self._until(b"\n\n").lstrip(b"\n").decode().split("\n")
        headers = dict(line.partition(":")[::2] for line in head[1:])
        size = int(headers.get("content-length", -1))
        while size >= 0 and len(self.data) <= size:
            self._more()
        if size < 0:
            self._until(b"\0")
        else:
            self.data = self.data[size + 1 :]
        return head[0], headers

    def _until(self, end: bytes) -> bytes:
        while end not in self.data.lstrip(b"\n"):
            self._more()
        found, _, self.data = self.data.lstrip(b"\n").partition(end)
        return found

    def _more(self) -> None:
        data = self.socket.recv(65_536)
        if not data:
            print("the broker closed the connection")
            raise SystemExit(2)
        self.data += data


def main(address: str, *login: str) -> int:
    """Play the conversation; return the exit status."""
    both = Connection(address, list(login))
    queue, other = "/queue/store.full", "/queue/beside"
    subscription = {
        "id": "1",
        "destination": queue,
        "ack": "client-individual",
        "activemq.prefetchSize": "10",
    }
    both.send("SUBSCRIBE", {**subscription, "receipt": "subscribed"})
    both.next("RECEIPT", **{"receipt-id": "subscribed"})
    for number in range(MOST):
        both.message(queue, f"s{number}", persistent=True)
        if both.next("RECEIPT", **{"receipt-id": f"s{number}"}) is None:
            break
    else:
        print(f"{MOST} messages did not fill the store")
        return 2
    held = [both.next("MESSAGE") for _ in range(10)]
    print(
        f"{number} messages were confirmed, the next one waits; the subscription received"
        f" {sum(map(bool, held))}"
    )
    for message in held:
        if message is not None:
            both.send("ACK", {"id": message["ack"]})
    both.message(other, "beside", persistent=False)
    confirmed = both.next("RECEIPT", **{"receipt-id": "beside"}) is not None
    more = both.next("MESSAGE") is not None
    print(f"the non-persistent message was {'confirmed' if confirmed else 'not confirmed'}")
    print(f"after the acknowledgements {'more' if more else 'no more'} messages arrived")
    rescue = Connection(address, list(login))
    rescue.send("SUBSCRIBE", {"id": "1", "destination": queue, "ack": "auto"})
    taken = 0
    while rescue.next("MESSAGE") is not None:
        taken += 1
    print(f"another connection took {taken} messages to make room")
    if both.next("RECEIPT", **{"receipt-id": f"s{number}"}) is None and not confirmed:
        print("that did not free the connection: what it waits for is unknown")
        return 2
    return 0 if confirmed and more else 1


if __name__ == "__main__":
    if len(sys.argv) not in (2, 4):
        sys.exit(__doc__)
    sys.exit(main(*sys.argv[1:]))
