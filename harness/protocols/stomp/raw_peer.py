"""A raw STOMP peer, which can speak correctly or send arbitrary bytes."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from brokerproof.harness.model.time import Duration
from brokerproof.harness.protocols.byte_log import Expectation, Shape
from brokerproof.harness.protocols.conversation import (
    PATIENCE,
    ControlFailed,
    Judge,
    Match,
    Requirements,
    Symptom,
)
from brokerproof.harness.protocols.stomp import codec
from brokerproof.harness.protocols.stomp.codec import Frame, HeadersLike
from brokerproof.harness.protocols.stomp.trace_recorder import StompConversation
from brokerproof.harness.trace.events import RECORDED_BYTES, FrameSent


@dataclass(frozen=True, slots=True)
class Destination:
    """A name for SEND and SUBSCRIBE, with the headers that select its kind in this broker
    family."""

    name: str
    send_headers: tuple[tuple[str, str], ...] = ()
    subscribe_headers: tuple[tuple[str, str], ...] = ()


def frame(command: str, headers: HeadersLike = (), *, body: bytes | None = None) -> Match[Frame]:
    """Match a frame by its command, its header values (first entries) and, if given, its body."""
    expected = codec.header_list(headers)
    words = " ".join(
        [
            command,
            *(f"{name}:{value}" for name, value in expected),
            *([] if body is None else [repr(body)]),
        ]
    )

    def accepts(candidate: Frame) -> bool:
        return (
            candidate.command == command
            and all(candidate.get(name) == value for name, value in expected)
            and (body is None or candidate.body == body)
        )

    return Match(words, accepts, (command, expected, body))


MESSAGE = frame("MESSAGE")
ERROR = frame("ERROR")
CONNECTED = frame("CONNECTED")
OF_RECEIPTS = re.compile(
    r"STOMP10-RECEIPT-.*|STOMP1[12]-(RCPT|SRV)-.*"
    "|STOMP11-HDR-12|STOMP11-HDR-13|STOMP12-HDR-16|STOMP12-HDR-17|STOMP12-FH-10"
)
"""Requirements on RECEIPTs and on what a server may send. They do not apply if the server refuses
the frame with an ERROR: the requirements on that frame decide whether it may do so."""
ASKED_FOR = re.compile("STOMP10-RECEIPT-02|STOMP11-HDR-13|STOMP12-HDR-17|STOMP1[12]-RCPT-01")
"""The requirements that a RECEIPT must arrive. A RECEIPT that never arrives violates only these."""
CONFIRMED = ("BEGIN", "SUBSCRIBE", "SEND")
"""The commands that the broker may never confirm, according to :attr:`Identity.unmet`."""


class StompInbox(StompConversation):
    """A STOMP conversation that takes MESSAGEs from its inbox."""

    transaction = "t"
    """The name of a transaction, which no other connection on a bench uses. On some brokers,
    connections share transactions, so concurrent cases with the same name would collide; only the
    cases about names should test that."""

    def message(
        self,
        *,
        body: bytes | None = None,
        within: Duration = PATIENCE,
        proves: Requirements | None = None,
    ) -> Frame:
        return self.expect(
            MESSAGE if body is None else frame("MESSAGE", body=body), within=within, proves=proves
        )

    def _unmet(
        self, detail: str, proves: Requirements | None, unmet: Expectation | None = None
    ) -> None:
        if proves is not None and any(frame.command == "ERROR" for frame in self.inbox):
            ids = (proves,) if isinstance(proves, str) else proves
            proves = tuple(each for each in ids if not OF_RECEIPTS.fullmatch(each)) or None
        super()._unmet(detail, proves, unmet)

    def naming(self, message: Frame) -> tuple[tuple[str, str], ...]:
        """Return the headers by which ACK and NACK name ``message``: STOMP10-ACK-01, STOMP11-ACK-01
        and -02, STOMP12-ACK-01."""
        needed = "ack" if self.version == "1.2" else "message-id"
        if message.get(needed) is None:
            raise ControlFailed(f"a MESSAGE without {needed} header cannot be acknowledged")
        if self.version == "1.2":
            return (("id", message["ack"]),)
        fields = [("message-id", message["message-id"])]
        subscription = message.get("subscription")
        if subscription is not None:
            fields.append(("subscription", subscription))
        return tuple(fields)

    def take_messages(self) -> list[Frame]:
        """Return and remove every MESSAGE in the inbox, in order."""
        taken = [frame for frame in self.inbox if frame.command == "MESSAGE"]
        self.inbox = [frame for frame in self.inbox if frame.command != "MESSAGE"]
        return taken


class StompPeer(StompInbox):
    """One STOMP connection of the harness, which speaks ``version`` once connected."""

    def __init__(self, judge: Judge, conn: int, acceptor: str, version: str) -> None:
        super().__init__(judge, conn, acceptor, version)
        self.messages_seen = 0
        self.unmet: Mapping[str, str] = {}
        """See :attr:`Identity.unmet`. Only the case that judges a missing RECEIPT waits for such a
        RECEIPT."""
        self._asked: dict[str, str] = {}
        """The commands of the frames that requested a receipt, by receipt id."""

    # Conversation

    def on_frame(self, item: Frame) -> None:
        self.messages_seen += item.command == "MESSAGE"
        super().on_frame(item)

    def _unmet(
        self, detail: str, proves: Requirements | None, unmet: Expectation | None = None
    ) -> None:
        if reason := self._never_confirmed(unmet):
            ids = (proves,) if isinstance(proves, str) else proves or ()
            proves = tuple(each for each in ids if ASKED_FOR.fullmatch(each))
            if not proves:
                raise ControlFailed(reason, Symptom.UNMET)
        super()._unmet(detail, proves, unmet)

    def _never_confirmed(self, unmet: Expectation | None) -> str:
        """Return why the awaited RECEIPT can no longer arrive; empty if it still can, or if none is
        awaited."""
        if unmet is None or unmet.kind != "frame" or unmet.shape is None:
            return ""
        command, headers, _ = unmet.shape
        silent = {name: self.unmet.get(f"stomp {name}", "") for name in CONFIRMED}
        asked = self._asked.get(dict(headers).get("receipt-id", ""))
        reasons = (silent[asked],) if asked in silent else silent.values()
        return next(filter(None, reasons), "") if command == "RECEIPT" else ""

    def on_the_wire(self, shape: Shape) -> Shape:
        command, headers, body = shape
        if command in codec.UNESCAPED:
            return shape
        quoted = (
            (codec.escape(name, self.version), codec.escape(value, self.version))
            for name, value in headers
        )
        return command, tuple(quoted), body

    # sending

    def send(
        self, command: str, headers: HeadersLike = (), body: bytes = b"", *, eol: bytes = b"\n"
    ) -> None:
        """Send one frame with exactly these headers, escaped for this peer's version."""
        data = codec.encode(command, headers, body, version=self.version, eol=eol)
        listed = codec.header_list(headers)
        self._asked.update((value, command) for name, value in listed if name == "receipt")
        self.judge.record(
            FrameSent(
                at_ns=self.world.now(),
                conn=self.conn,
                protocol=self.protocol,
                command=command,
                headers=listed,
                body=body[:RECORDED_BYTES],
                body_size=len(body),
                size=len(data),
            )
        )
        self.write(data, as_event=False)

    def request(
        self,
        command: str,
        headers: HeadersLike = (),
        body: bytes = b"",
        *,
        within: Duration = PATIENCE,
        proves: Requirements | None = None,
    ) -> Frame:
        """Send a frame with a receipt header and wait for its RECEIPT."""
        if proves is None and (reason := self.unmet.get(f"stomp {command}")):
            raise ControlFailed(reason, Symptom.UNMET)
        receipt = self.next_receipt()
        self.send(command, (*codec.header_list(headers), ("receipt", receipt)), body)
        return self.expect(frame("RECEIPT", {"receipt-id": receipt}), within=within, proves=proves)

    def next_receipt(self) -> str:
        """Return a receipt id not used before on this connection."""
        self._receipts += 1
        return f"r{self._receipts}"

    def connect(
        self,
        headers: HeadersLike = (),
        *,
        command: str = "CONNECT",
        proves: Requirements | None = None,
    ) -> Frame:
        """Send CONNECT with exactly these headers and wait for CONNECTED."""
        self.send(command, headers)
        self.connected = self.expect(CONNECTED, proves=proves)
        return self.connected

    def settle(self) -> None:
        """Wait until the broker has processed everything sent earlier (STOMP12-RCPT-01, -03): a
        barrier.

        The barrier is an empty transaction with receipts, which affects no destination in any
        version.
        """
        name = f"{self.transaction}-settle-{self.next_receipt()}"
        self.request("BEGIN", {"transaction": name})
        self.request("ABORT", {"transaction": name})

    # the usual frames

    def publish(
        self,
        to: Destination,
        body: bytes = b"",
        headers: HeadersLike = (),
        *,
        receipt: bool = True,
        proves: Requirements | None = None,
    ) -> None:
        """Send a SEND with content-length; by default wait for the receipt."""
        fields = (
            ("destination", to.name),
            *to.send_headers,
            ("content-length", str(len(body))),
            *codec.header_list(headers),
        )
        if receipt:
            self.request("SEND", fields, body, proves=proves)
        else:
            self.send("SEND", fields, body)

    def subscribe(
        self,
        to: Destination,
        id: str = "0",  # the header's own name
        *,
        ack: str = "auto",
        headers: HeadersLike = (),
        receipt: bool = True,
        proves: Requirements | None = None,
    ) -> None:
        """Send a SUBSCRIBE; by default wait for the receipt."""
        fields = (
            ("id", id),
            ("destination", to.name),
            ("ack", ack),
            *to.subscribe_headers,
            *codec.header_list(headers),
        )
        if receipt:
            self.request("SUBSCRIBE", fields, proves=proves)
        else:
            self.send("SUBSCRIBE", fields)

    def ack(self, message: Frame, headers: HeadersLike = (), *, receipt: bool = False) -> None:
        """Send an ACK that names ``message`` as this version requires."""
        self._settle_message("ACK", message, headers, receipt)

    def nack(self, message: Frame, headers: HeadersLike = (), *, receipt: bool = False) -> None:
        """Send a NACK (1.1 and 1.2) that names ``message`` as this version requires."""
        self._settle_message("NACK", message, headers, receipt)

    def _settle_message(
        self, command: str, message: Frame, headers: HeadersLike, receipt: bool
    ) -> None:
        fields = (*self.naming(message), *codec.header_list(headers))
        if receipt:
            self.request(command, fields)
        else:
            self.send(command, fields)
