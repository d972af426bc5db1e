"""An AMQP 1.0 client for the soak test, with the harness's codec."""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

from brokerproof.harness.protocols.amqp10 import codec as amqp
from brokerproof.harness.protocols.amqp10 import hot_path, types
from brokerproof.harness.protocols.amqp10 import messages as amqp_messages
from brokerproof.harness.protocols.length_prefixed import Unreadable
from brokerproof.suites.soak.clients.client import (
    ARTEMIS,
    SLASHES,
    Client,
    Confirmed,
    Counting,
    Delivered,
    Event,
    Naming,
    Refused,
)


class Amqp10Client(Client):
    """AMQP 1.0, with sending links from 0 up by address, a receiving link, and one to the
    coordinator. Transactions follow one another."""

    protocol = "amqp"
    _RECEIVER, _COORDINATOR = 100, 101

    def __init__(self, name: str, naming: Naming = ARTEMIS) -> None:
        super().__init__(name, naming)
        self._reader = amqp.Reader()
        self._counting = Counting()
        self._senders: dict[str, int] = {}
        self._next = 0
        self._most = 512
        self._answers: dict[int, Callable[[amqp.Frame], Iterator[Event]]] = {}
        """The action on an outcome, by our delivery-id."""
        self._settling: dict[int, str] = {}
        """The reference of our acknowledgement, by the broker's delivery-id."""
        self._payload = b""
        self._delivery = 0
        self._credit = self._granted = self._received = 0
        self._units: deque[tuple[Callable[[bytes], None], str]] = deque()
        """Queued transactions, the first in progress, and sends between them. A plain send has no
        reference here ("") and needs no transaction id."""
        self.write(amqp.protocol_header())
        opening = {"container-id": name, "hostname": "h", "max-frame-size": 65536}
        window = {"next-outgoing-id": 0, "incoming-window": 2**31 - 1, "outgoing-window": 2**31 - 1}
        self.write(hot_path.performative("open", opening))
        self.write(hot_path.performative("begin", window))

    def on_bytes(self, data: bytes) -> Iterator[Event]:
        for frame in self._reader.feed(data):
            if isinstance(frame, Unreadable):
                raise Refused(frame.reason)
            if isinstance(frame, amqp.Empty):
                continue
            match frame.name:
                case "open":
                    self._most = min(65536, frame.get("max-frame-size", 65536))
                case "begin":
                    self._attach("c", self._COORDINATOR, amqp.composite("coordinator"), None)
                    self.set_ready()
                case "transfer":
                    yield from self._transfer(frame)
                case "disposition":
                    yield from self._disposition(frame)
                case "detach" | "end" | "close":
                    raise Refused(frame.brief())

    def _attach(self, kind: str, handle: int, target: Any, source: str | None) -> None:
        terminus = {"address": source, "capabilities": types.symbols(["queue"])}
        if source is not None and self.naming is SLASHES:
            terminus["address"] = f"queue://{source}"
        fields = {
            "name": f"{self.name}-{kind}",
            "handle": handle,
            "role": amqp.SENDER if source is None else amqp.RECEIVER,
            "source": amqp.composite("source", {} if source is None else terminus),
            "target": target,
            "initial-delivery-count": 0 if source is None else None,
        }
        self.write(hot_path.performative("attach", fields))

    def _sender(self, address: str) -> int:
        if address not in self._senders:
            handle = self._senders[address] = len(self._senders)
            named = f"queue://{address}" if self.naming is SLASHES else address
            terminus = {"address": named, "capabilities": types.symbols(["queue"])}
            self._attach(f"s{handle}", handle, amqp.composite("target", terminus), None)
        return self._senders[address]

    def _post(
        self, handle: int, payload: bytes, then: Callable[[amqp.Frame], Iterator[Event]], state: Any
    ) -> None:
        self._answers[self._next] = then
        fields: dict[str, Any] = {"handle": handle, "delivery-id": self._next, "state": state}
        fields |= {"delivery-tag": self._next.to_bytes(4), "message-format": 0, "settled": False}
        self._next += 1
        room = self._most - 200
        for at in range(0, len(payload), room):
            fields["more"] = at + room < len(payload)
            head = types.encode(amqp.composite("transfer", fields))
            self.write(amqp.encode_frame(head + payload[at : at + room]))
            fields = {"handle": handle}

    def _produce(self, address: str, bodies: Sequence[bytes], reference: str, unit: bool) -> None:
        handle = self._sender(address)
        durable = {"durable": True}
        data = [amqp_messages.message(body, header=durable) for body in bodies]
        if unit:
            self._unit(partial(self._post_all, handle, data), reference)
            return
        self._counting.expect(reference, len(data))
        if self._units:
            self._units.append((partial(self._post_plain, handle, data, reference), ""))
        else:
            self._post_plain(handle, data, reference)

    def _post_plain(
        self, handle: int, chunks: list[bytes], reference: str, id: bytes = b""
    ) -> None:
        for payload in chunks:
            self._post(handle, payload, partial(self._accepted, reference), None)

    def _post_all(self, handle: int, chunks: list[bytes], id: bytes) -> None:
        state = amqp.composite("transactional-state", {"txn-id": id})
        for payload in chunks:
            self._post(handle, payload, self._provisional, state)

    def _accepted(self, reference: str, frame: amqp.Frame) -> Iterator[Event]:
        if frame.kind("state") != "accepted":
            raise Refused(frame.brief())
        return self._counting.part(reference)

    @staticmethod
    def _provisional(frame: amqp.Frame) -> Iterator[Event]:
        outcome = amqp.fields_of(frame.fields.get("state")).get("outcome")
        if "accepted" not in (frame.kind("state"), amqp.name_of(outcome)):
            raise Refused(frame.brief())
        return iter(())

    # transactions

    def _unit(self, work: Callable[[bytes], None], reference: str) -> None:
        self._units.append((work, reference))
        if len(self._units) == 1:
            self._declare()

    def _declare(self) -> None:
        while self._units and not self._units[0][1]:
            work, _ = self._units.popleft()
            work(b"")
        if not self._units:
            return
        declare = amqp_messages.message(amqp.composite("declare"))
        self._post(self._COORDINATOR, declare, self._declared, None)

    def _declared(self, frame: amqp.Frame) -> Iterator[Event]:
        if frame.kind("state") != "declared":
            raise Refused(frame.brief())
        id = bytes(frame.part("state")["txn-id"])
        work, _ = self._units[0]
        work(id)
        discharge = amqp_messages.message(
            amqp.composite("discharge", {"txn-id": id, "fail": False})
        )
        self._post(self._COORDINATOR, discharge, self._discharged, None)
        return iter(())

    def _discharged(self, frame: amqp.Frame) -> Iterator[Event]:
        if frame.kind("state") != "accepted":
            raise Refused(frame.brief())
        _, reference = self._units.popleft()
        self._declare()
        yield Confirmed(reference)

    # receiving

    def _consume(self, queue: str, window: int) -> None:
        self._attach("r", self._RECEIVER, amqp.composite("target"), queue)
        self._credit = 1000 if window < 0 else max(1, window // 500)
        self._grant()

    def _grant(self) -> None:
        self._granted = self._credit
        fields = {
            "next-incoming-id": None,
            "incoming-window": 2**31 - 1,
            "next-outgoing-id": self._next,
            "outgoing-window": 2**31 - 1,
            "handle": self._RECEIVER,
            "delivery-count": self._received,
            "link-credit": self._credit,
        }
        fields["next-incoming-id"] = 0
        self.write(hot_path.performative("flow", fields))

    def _transfer(self, frame: amqp.Frame) -> Iterator[Event]:
        self._delivery = frame.get("delivery-id", self._delivery)
        self._payload += frame.payload
        if frame.get("more"):
            return
        payload, self._payload = self._payload, b""
        self._received += 1
        self._granted -= 1
        if self._granted <= self._credit // 2:
            self._grant()
        message = amqp_messages.read(payload)
        header = message.fields("header")
        marked = not header.get("first-acquirer", False) or header.get("delivery-count", 0) > 0
        yield Delivered(self._delivery, message.body, marked)

    def _acknowledge(self, handles: Sequence[Any], reference: str, unit: bool) -> None:
        if unit:
            self._unit(partial(self._retire, handles), reference)
            return
        self._counting.expect(reference, len(handles))
        for handle in handles:
            self._settling[handle] = reference
            self._settle(handle, amqp.composite("accepted"), settled=False)

    def _retire(self, handles: Sequence[Any], id: bytes) -> None:
        outcome = {"txn-id": id, "outcome": amqp.composite("accepted")}
        for handle in handles:
            self._settle(handle, amqp.composite("transactional-state", outcome), settled=True)

    def _settle(self, handle: int, state: Any, *, settled: bool) -> None:
        fields = {"role": True, "first": handle, "last": handle, "settled": settled, "state": state}
        self.write(hot_path.performative("disposition", fields))

    def _disposition(self, frame: amqp.Frame) -> Iterator[Event]:
        first = frame["first"]
        for id in range(first, frame.get("last", first) + 1):
            if frame["role"]:
                if id in self._answers:
                    yield from self._answers.pop(id)(frame)
            elif frame.get("settled") and id in self._settling:
                yield from self._counting.part(self._settling.pop(id))
