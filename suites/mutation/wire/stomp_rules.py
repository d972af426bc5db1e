"""Faults on the wire of STOMP."""

from collections.abc import Iterable

from brokerproof.harness.model.time import Duration, seconds
from brokerproof.suites.mutation.wire.mutant import (
    Tampering,
    from_broker,
    stomp,
    to_broker,
    wire_mutant,
)
from brokerproof.suites.mutation.wire.stream_splitter import Heartbeat, StompUnit, Unit
from brokerproof.suites.mutation.wire.tampering import Late, Out

WINDOW = "consumer-window-size"
KEPT = frozenset(
    [
        "destination",
        "message-id",
        "subscription",
        "ack",
        "content-length",
        "content-type",
        "redelivered",
        "expires",
        "priority",
        "timestamp",
        "persistent",
        "type",
        "reply-to",
        "correlation-id",
    ]
)


class OneInThree(Tampering):
    """Tampers with the second of every three messages and those after it: at least one must pass,
    or only controls would fail."""

    _seen = 0

    def from_broker(self, unit: Unit) -> Iterable[Out]:
        message = stomp(unit, "MESSAGE")
        if message is None:
            return (unit.raw,)
        self._seen += 1
        return self.tampered(message) if self._seen % 3 == 2 else self.spared(message)

    def tampered(self, message: StompUnit) -> Iterable[Out]:
        """Return the replacement of a message that is tampered with."""
        raise NotImplementedError

    def spared(self, message: StompUnit) -> Iterable[Out]:
        """Return the replacement of the other frames."""
        return (message.raw,)


@wire_mutant(
    "stomp.message-lost",
    "ARTEMIS-CONCEPTS-queue-1 ARTEMIS-CONCEPTS-topic-1 ARTEMIS-GROUPING-fifo-1",
)
class MessageLost(OneInThree):
    """One MESSAGE in three is lost on its way to the client."""

    def tampered(self, message: StompUnit) -> Iterable[Out]:
        return self.instead(message)


@wire_mutant(
    "stomp.message-twice",
    "ARTEMIS-CONCEPTS-queue-1 ARTEMIS-CONCEPTS-queue-2 ARTEMIS-GROUPING-fifo-1",
)
class MessageTwice(OneInThree):
    """One MESSAGE in three arrives twice."""

    def tampered(self, message: StompUnit) -> Iterable[Out]:
        return self.instead(message, message.raw, message.raw)


@wire_mutant("stomp.messages-change-places", "ARTEMIS-GROUPING-fifo-1")
class MessagesChangePlaces(OneInThree):
    """The second and the third of every three MESSAGEs change places."""

    _kept = b""

    def tampered(self, message: StompUnit) -> Iterable[Out]:
        self._kept = message.raw
        return self.instead(message)

    def spared(self, message: StompUnit) -> Iterable[Out]:
        kept, self._kept = self._kept, b""
        return (message.raw, kept) if kept else (message.raw,)


@from_broker("MESSAGE", "STOMP12-HDR-03 STOMP11-HDR-03")
def message_cut_short(message):
    """A body with a zero byte ends before it: content-length is ignored."""
    body = message.body.partition(b"\0")[0]
    if body == message.body:
        return None
    return (message.rewritten(change={"content-length": str(len(body))}, body=body),)


@from_broker("MESSAGE", "STOMP12-MSG-01 STOMP12-MSG-02 STOMP11-MSG-01")
def destination_changed(message):
    """MESSAGE names a wrong destination."""
    return {"destination": f"x{message.get('destination')}"}


@from_broker("MESSAGE", "STOMP12-MSG-04 STOMP11-MSG-05")
def subscription_missing(message):
    """MESSAGE has no subscription header."""
    return {"subscription": None}


@from_broker("MESSAGE", "STOMP12-MSG-03 STOMP11-MSG-03")
def message_id_constant(message):
    """Every MESSAGE has the same message-id."""
    return {"message-id": "1"}


@from_broker("MESSAGE", "STOMP12-MSG-08 STOMP11-MSG-06")
def own_headers_lost(message):
    """The headers that an application gave its message are lost."""
    return {name: None for name, _ in message.headers if name not in KEPT}


@from_broker("MESSAGE", "ARTEMIS-REDELIVERY-marked-1")
def redelivered_missing(message):
    """A redelivered message is not marked."""
    return {"redelivered": None}


@from_broker("RECEIPT", "STOMP12-RCPT-02 STOMP11-RCPT-02 STOMP12-HDR-16 STOMP11-HDR-13")
def receipt_of_another(receipt):
    """RECEIPT has a wrong value if the requested one is not a plain word."""
    value = receipt.get("receipt-id") or ""
    return None if value.isalnum() else {"receipt-id": value.strip() + "x"}


@to_broker(
    "COMMIT", "STOMP12-RCPT-01 STOMP11-RCPT-01 STOMP12-BEGIN-03 STOMP12-COMMIT-01 STOMP11-BEGIN-03"
)
def receipt_without_effect(commit):
    """COMMIT reaches the broker as ABORT: its RECEIPT is wrong."""
    return (commit.rewritten(command="ABORT"),)


@to_broker(
    "ABORT", "STOMP12-ABORT-01 STOMP12-BEGIN-03 STOMP11-ABORT-01 STOMP11-BEGIN-03 STOMP12-ACK-03"
)
def abort_commits(abort):
    """ABORT reaches the broker as COMMIT."""
    return (abort.rewritten(command="COMMIT"),)


@to_broker(
    "ACK",
    (
        "STOMP12-ACK-01 STOMP12-SUB-11 ARTEMIS-CONCEPTS-queue-2 ARTEMIS-STOMP-window-3"
        " ARTEMIS-STOMP-window-2"
    ),
)
def ack_lost(ack):
    """ACK never reaches the broker, but is confirmed."""
    return None if ack.get("receipt") else ()


@to_broker("NACK", "ARTEMIS-STOMP-window-2 ARTEMIS-STOMP-window-3 STOMP12-NACK-04 STOMP11-NACK-03")
def nack_lost(nack):
    """NACK never reaches the broker, but is confirmed: the refused message stays with the
    client."""
    return None if nack.get("receipt") else ()


@to_broker("UNSUBSCRIBE", "STOMP12-UNSUB-03 STOMP11-UNSUB-02 STOMP10-UNSUBSCRIBE-02")
def unsubscribe_lost(unsubscribe):
    """UNSUBSCRIBE is confirmed but has no effect: messages keep arriving."""
    receipt = unsubscribe.get("receipt")
    if receipt is None:
        return None
    return (f"BEGIN\ntransaction:stands-in-{receipt}\nreceipt:{receipt}\n\n\0".encode(),)


@to_broker(
    "SUBSCRIBE",
    "STOMP12-ACK-04 STOMP12-SUB-10 STOMP11-ACK-01 STOMP12-SUB-07 ARTEMIS-REDELIVERY-back-1",
)
def client_mode_is_auto(subscribe):
    """A subscription in mode client acts as auto: unacknowledged messages are lost with the
    client."""
    return {"ack": "auto"} if subscribe.get("ack") in ("client", "client-individual") else None


@to_broker("SUBSCRIBE", "STOMP12-SUB-11 STOMP11-SUB-05 STOMP12-ACK-04 STOMP11-ACK-03")
def client_mode_is_individual(subscribe):
    """In mode client an ACK covers only its own message."""
    return {"ack": "client-individual"} if subscribe.get("ack") == "client" else None


def _window(subscribe):
    """Return the requested window; 0 if it has no limit."""
    asked = subscribe.get(WINDOW) or ""
    return int(asked) if asked.isdecimal() else 0


@to_broker("SUBSCRIBE", "ARTEMIS-STOMP-window-3 ARTEMIS-STOMP-window-1")
def window_too_wide(subscribe):
    """A consumer window is 1500 bytes larger than requested."""
    size = _window(subscribe)
    return {WINDOW: str(size + 1500)} if size else None


@to_broker("SUBSCRIBE", "ARTEMIS-STOMP-window-3")
def window_an_octet_too_wide(subscribe):
    """A consumer window is one byte larger than requested."""
    size = _window(subscribe)
    return {WINDOW: str(size + 1)} if size else None


@to_broker("SUBSCRIBE", "ARTEMIS-STOMP-window-3 ARTEMIS-STOMP-window-1 ARTEMIS-STOMP-window-5")
def window_too_narrow(subscribe):
    """A consumer window is a tenth of that requested."""
    size = _window(subscribe)
    return {WINDOW: str(size // 10)} if size >= 10 else None


@to_broker("SUBSCRIBE", "ARTEMIS-STOMP-window-2")
def window_zero_is_none(subscribe):
    """A consumer window of 0 holds nothing back."""
    return {WINDOW: "-1"} if subscribe.get(WINDOW) == "0" else None


class AnotherBeat(Tampering):
    """The broker sees a different interval from the one that the client offers; the client sees its
    own."""

    factor = 1.0

    def __init__(self, *args: object) -> None:
        super().__init__(*args)  # type: ignore[arg-type]
        self._offered, self._told = "", ""

    def to_broker(self, unit: Unit) -> Iterable[Out]:
        connect = stomp(unit, "CONNECT") or stomp(unit, "STOMP")
        parts = [] if connect is None else (connect.get("heart-beat") or "").split(",")
        if (
            connect is None
            or len(parts) != 2
            or not parts[0].isdecimal()
            or not 0 < int(parts[0]) < 10**9
        ):
            return (unit.raw,)
        self._offered, self._told = parts[0], str(int(int(parts[0]) * self.factor))
        return self.instead(
            unit, connect.rewritten(change={"heart-beat": f"{self._told},{parts[1]}"})
        )

    def from_broker(self, unit: Unit) -> Iterable[Out]:
        connected = stomp(unit, "CONNECTED")
        sends, _, wants = "" if connected is None else (connected.get("heart-beat") or ""), "", ""
        sends, _, wants = sends.partition(",")
        if connected is None or not self._told or wants != self._told:
            return (unit.raw,)
        return (connected.rewritten(change={"heart-beat": f"{sends},{self._offered}"}),)


@wire_mutant("stomp.ttl-too-long", "ARTEMIS-STOMP-ttl-3")
class TtlTooLong(AnotherBeat):
    """A connection lives for two and a half times its TTL."""

    factor = 2.5


@wire_mutant("stomp.ttl-too-short", "ARTEMIS-STOMP-ttl-3 STOMP12-HB-11 STOMP12-HB-12")
class TtlTooShort(AnotherBeat):
    """A connection lives for a third of its TTL."""

    factor = 1 / 3


@wire_mutant(
    "stomp.close-late",
    "ARTEMIS-STOMP-ttl-3 ARTEMIS-STOMP-ttl-2 STOMP12-ERR-02 STOMP11-ERR-02 STOMP12-SUB-03",
)
class CloseLate(Tampering):
    """The end of a connection becomes visible twenty seconds too late."""

    def closing(self) -> Duration:
        self.reached()
        return seconds(20)


@from_broker(
    "CONNECTED", "ARTEMIS-STOMP-ttl-3 ARTEMIS-STOMP-ttl-2 ARTEMIS-STOMP-ttl-4 ARTEMIS-STOMP-ttl-6"
)
def answer_asks_for_other_beats(connected):
    """CONNECTED requests an interval from the client that is a millisecond longer than the
    broker's."""
    sends, _, wants = (connected.get("heart-beat") or "0,0").partition(",")
    return None if wants == "0" else {"heart-beat": f"{sends},{int(wants) + 1}"}


@from_broker("CONNECTED", "ARTEMIS-STOMP-ttl-7")
def promise_below_the_floor(connected):
    """CONNECTED promises beats every millisecond."""
    sends, _, wants = (connected.get("heart-beat") or "0,0").partition(",")
    return None if sends == "0" else {"heart-beat": f"1,{wants}"}


@wire_mutant(
    "stomp.beats-lost",
    "STOMP12-HB-07 STOMP11-HB-07 STOMP12-HB-09 STOMP11-HB-09 ARTEMIS-STOMP-ttl-9",
)
class BeatsLost(Tampering):
    """Two of three of the broker's heartbeats are lost."""

    _seen = 0

    def from_broker(self, unit: Unit) -> Iterable[Out]:
        if not isinstance(unit, Heartbeat):
            return (unit.raw,)
        self._seen += 1
        return (unit.raw,) if self._seen % 3 == 0 else self.instead(unit)


@from_broker(
    "CONNECTED", "STOMP12-CONNECTED-01 STOMP11-CONNECTED-01 STOMP12-NEGO-04 STOMP11-NEGO-04"
)
def version_missing(connected):
    """CONNECTED has no version."""
    return {"version": None}


@from_broker(
    "ERROR", "STOMP12-SUB-03 STOMP11-SUB-03 STOMP12-NEGO-05 STOMP11-NEGO-05 STOMP12-CONNECT-03"
)
def error_lost(error):
    """ERROR never arrives: connections end without one."""
    return ()


@from_broker("ERROR", "STOMP12-ERR-06 STOMP11-ERR-06")
def error_of_no_frame(error):
    """ERROR lacks the receipt-id of the frame that caused it."""
    return {"receipt-id": None}


@wire_mutant(
    "stomp.message-late",
    "ARTEMIS-STOMP-window-4 STOMP12-SUB-02 STOMP11-SUB-02 ARTEMIS-STOMP-window-3",
)
class MessageLate(OneInThree):
    """One MESSAGE in three takes a minute."""

    def tampered(self, message: StompUnit) -> Iterable[Out]:
        return self.instead(message, Late(message.raw, seconds(60)))
