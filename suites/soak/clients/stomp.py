"""A STOMP client for the soak test."""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

from brokerproof.suites.soak.clients.client import (
    ARTEMIS,
    Client,
    Counting,
    Delivered,
    Event,
    Naming,
    Refused,
)


class StompClient(Client):
    """STOMP 1.2. Bodies contain no NUL."""

    protocol = "stomp"
    topics = True

    def __init__(self, name: str, naming: Naming = ARTEMIS) -> None:
        super().__init__(name, naming)
        self._pending = bytearray()
        self._looked = 0
        self._counting = Counting()
        headers = f"{naming.connect}client-id:{name}\n"
        self.write(f"CONNECT\naccept-version:1.2\n{headers}\n\0".encode())

    def on_bytes(self, data: bytes) -> Iterator[Event]:
        self._pending += data
        while (end := self._pending.find(b"\0", self._looked)) >= 0:
            head, _, body = bytes(self._pending[:end]).lstrip(b"\n").partition(b"\n\n")
            del self._pending[: end + 1]
            self._looked = 0
            command, *lines = head.decode().split("\n")
            headers = dict(line.split(":", 1) for line in reversed(lines))
            if command == "CONNECTED":
                self.set_ready()
            elif command == "RECEIPT":
                if headers["receipt-id"] != "-":
                    yield from self._counting.part(headers["receipt-id"])
            elif command == "MESSAGE":
                yield Delivered(headers["ack"], body, headers.get("redelivered") == "true")
            else:
                raise Refused(f"{command}: {headers.get('message')}")
        self._looked = len(self._pending)

    def _frames(self, frames: list[tuple[str, bytes]], reference: str, unit: bool) -> None:
        """Write frames, each given as an unfinished head and a body."""
        self._counting.expect(reference, 1 if unit else len(frames))
        header = "transaction:t\n" if unit else f"receipt:{reference}\n"
        data = [
            b"%b%bcontent-length:%d\n\n%b\0" % (head.encode(), header.encode(), len(body), body)
            for head, body in frames
        ]
        if unit:
            end = f"COMMIT\ntransaction:t\nreceipt:{reference}\n\n\0".encode()
            data = [b"BEGIN\ntransaction:t\n\n\0", *data, end]
        self.write(b"".join(data))

    def _produce(self, address: str, bodies: Sequence[bytes], reference: str, unit: bool) -> None:
        place = self.naming.place(address, address.endswith("topic"), "destination-type")
        head = f"SEND\n{place}persistent:true\n"
        self._frames([(head, body) for body in bodies], reference, unit)

    def _consume(self, queue: str, window: int) -> None:
        address, _, name = queue.partition("#")
        place = self.naming.place(address, bool(name), "subscription-type")
        durable = f"durable-subscriber-name:{name}\n" if name else ""
        self.write(
            f"SUBSCRIBE\nid:0\n{place}{durable}ack:client-individual\n"
            f"{self.naming.window(window)}receipt:-\n\n\0".encode()
        )

    def _acknowledge(self, handles: Sequence[Any], reference: str, unit: bool) -> None:
        self._frames([(f"ACK\nid:{handle}\n", b"") for handle in handles], reference, unit)

    def send_unconfirmed(self, address: str, body: bytes) -> None:
        """Send a durable message without a receipt."""
        place = self.naming.place(address, False, "destination-type")
        head = f"SEND\n{place}persistent:true\ncontent-length:{len(body)}\n\n"
        self.when_ready(partial(self.write, head.encode() + body + b"\0"))

    def leave(self, reference: str) -> None:
        """Disconnect properly; this confirms ``reference`` and everything sent before."""
        self._counting.expect(reference, 1)
        frame = f"DISCONNECT\nreceipt:{reference}\n\n\0".encode()
        self.when_ready(partial(self.write, frame))
