"""Faults on the wire of STOMP."""

from __future__ import annotations

from collections.abc import Iterable

from brokerproof.harness.model.time import Duration, seconds
from brokerproof.suites.mutation.wire.mutant import Tampering, stomp, wire_mutant
from brokerproof.suites.mutation.wire.stream_splitter import Heartbeat, StompUnit, Unit
from brokerproof.suites.mutation.wire.tampering import Late, Out


class OneInThree(Tampering):
    """Messages from the second of every three are tampered with: one alone must pass, or nothing
    but controls would fail."""

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
    """One MESSAGE in three comes twice."""

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


@wire_mutant("stomp.message-cut-short", "STOMP12-HDR-03 STOMP11-HDR-03")
class MessageCutShort(Tampering):
    """A body with a zero byte ends before it: content-length is ignored."""

    def from_broker(self, unit: Unit) -> Iterable[Out]:
        message = stomp(unit, "MESSAGE")
        if message is None or b"\0" not in message.body:
            return (unit.raw,)
        head = {"content-length": str(message.body.index(b"\0"))}
        return self.instead(
            unit, message.rewritten(change=head, body=message.body.partition(b"\0")[0])
        )


@wire_mutant("stomp.destination-changed", "STOMP12-MSG-01 STOMP12-MSG-02 STOMP11-MSG-01")
class DestinationChanged(Tampering):
    """MESSAGE names another destination than the one that was sent to."""

    def from_broker(self, unit: Unit) -> Iterable[Out]:
        message = stomp(unit, "MESSAGE")
        if message is None:
            return (unit.raw,)
        return self.instead(
            unit, message.rewritten(change={"destination": f"x{message.get('destination')}"})
        )


@wire_mutant("stomp.subscription-missing", "STOMP12-MSG-04 STOMP11-MSG-05")
class SubscriptionMissing(Tampering):
    """MESSAGE does not say which subscription it comes by."""

    def from_broker(self, unit: Unit) -> Iterable[Out]:
        message = stomp(unit, "MESSAGE")
        if message is None or message.get("subscription") is None:
            return (unit.raw,)
        return self.instead(unit, message.rewritten(change={"subscription": None}))


@wire_mutant("stomp.message-id-constant", "STOMP12-MSG-03 STOMP11-MSG-03")
class MessageIdConstant(Tampering):
    """Every MESSAGE has the same message-id."""

    def from_broker(self, unit: Unit) -> Iterable[Out]:
        message = stomp(unit, "MESSAGE")
        if message is None:
            return (unit.raw,)
        return self.instead(unit, message.rewritten(change={"message-id": "1"}))


@wire_mutant("stomp.own-headers-lost", "STOMP12-MSG-08 STOMP11-MSG-06")
class OwnHeadersLost(Tampering):
    """The headers that an application gave its message are lost."""

    KEPT = frozenset(
        {
            "destination",
            "message-id",
            "subscription",
            "ack",
            "content-length",
            "content-type",
            "redelivered",
            "expires",
        }
        | {"priority", "timestamp", "persistent", "type", "reply-to", "correlation-id"}
    )

    def from_broker(self, unit: Unit) -> Iterable[Out]:
        message = stomp(unit, "MESSAGE")
        own = (
            {}
            if message is None
            else {name: None for name, _ in message.headers if name not in self.KEPT}
        )
        if message is None or not own:
            return (unit.raw,)
        return self.instead(unit, message.rewritten(change=own))


@wire_mutant("stomp.redelivered-missing", "ARTEMIS-REDELIVERY-marked-1")
class RedeliveredMissing(Tampering):
    """A message that is delivered again does not say so."""

    def from_broker(self, unit: Unit) -> Iterable[Out]:
        message = stomp(unit, "MESSAGE")
        if message is None or message.get("redelivered") is None:
            return (unit.raw,)
        return self.instead(unit, message.rewritten(change={"redelivered": None}))


@wire_mutant(
    "stomp.receipt-of-another", "STOMP12-RCPT-02 STOMP11-RCPT-02 STOMP12-HDR-16 STOMP11-HDR-13"
)
class ReceiptOfAnother(Tampering):
    """RECEIPT carries another value than the frame that asked for it, if that is no plain word."""

    def from_broker(self, unit: Unit) -> Iterable[Out]:
        receipt = stomp(unit, "RECEIPT")
        value = "" if receipt is None else receipt.get("receipt-id") or ""
        if receipt is None or value.isalnum():
            return (unit.raw,)
        return self.instead(unit, receipt.rewritten(change={"receipt-id": value.strip() + "x"}))


@wire_mutant(
    "stomp.receipt-without-effect",
    "STOMP12-RCPT-01 STOMP11-RCPT-01 STOMP12-BEGIN-03 STOMP12-COMMIT-01 STOMP11-BEGIN-03",
)
class ReceiptWithoutEffect(Tampering):
    """COMMIT reaches the broker as ABORT: its RECEIPT says that it was processed, and nothing
    was."""

    def to_broker(self, unit: Unit) -> Iterable[Out]:
        commit = stomp(unit, "COMMIT")
        return (
            (unit.raw,) if commit is None else self.instead(unit, commit.rewritten(command="ABORT"))
        )


@wire_mutant(
    "stomp.abort-commits",
    "STOMP12-ABORT-01 STOMP12-BEGIN-03 STOMP11-ABORT-01 STOMP11-BEGIN-03 STOMP12-ACK-03",
)
class AbortCommits(Tampering):
    """ABORT reaches the broker as COMMIT."""

    def to_broker(self, unit: Unit) -> Iterable[Out]:
        abort = stomp(unit, "ABORT")
        return (
            (unit.raw,) if abort is None else self.instead(unit, abort.rewritten(command="COMMIT"))
        )


@wire_mutant(
    "stomp.ack-lost",
    "STOMP12-ACK-01 STOMP12-SUB-11 ARTEMIS-CONCEPTS-queue-2 ARTEMIS-STOMP-window-3"
    " ARTEMIS-STOMP-window-2",
)
class AckLost(Tampering):
    """ACK never reaches the broker, its receipt apart."""

    def to_broker(self, unit: Unit) -> Iterable[Out]:
        ack = stomp(unit, "ACK")
        return (unit.raw,) if ack is None or ack.get("receipt") else self.instead(unit)


@wire_mutant(
    "stomp.nack-lost",
    "ARTEMIS-STOMP-window-2 ARTEMIS-STOMP-window-3 STOMP12-NACK-04 STOMP11-NACK-03",
)
class NackLost(Tampering):
    """NACK never reaches the broker, its receipt apart: what was refused stays with the client that
    refused it."""

    def to_broker(self, unit: Unit) -> Iterable[Out]:
        nack = stomp(unit, "NACK")
        return (unit.raw,) if nack is None or nack.get("receipt") else self.instead(unit)


@wire_mutant("stomp.unsubscribe-lost", "STOMP12-UNSUB-03 STOMP11-UNSUB-02 STOMP10-UNSUBSCRIBE-02")
class UnsubscribeLost(Tampering):
    """UNSUBSCRIBE does nothing: messages keep coming, though its receipt came."""

    def to_broker(self, unit: Unit) -> Iterable[Out]:
        leaving = stomp(unit, "UNSUBSCRIBE")
        receipt = None if leaving is None else leaving.get("receipt")
        if leaving is None or receipt is None:
            return (unit.raw,)
        stand_in = f"BEGIN\ntransaction:stands-in-{receipt}\nreceipt:{receipt}\n\n\0".encode()
        return self.instead(unit, stand_in)


@wire_mutant(
    "stomp.client-mode-is-auto",
    "STOMP12-ACK-04 STOMP12-SUB-10 STOMP11-ACK-01 STOMP12-SUB-07 ARTEMIS-REDELIVERY-back-1",
)
class ClientModeIsAuto(Tampering):
    """A subscription in mode client is one in mode auto: what was not acknowledged is gone with the
    client."""

    def to_broker(self, unit: Unit) -> Iterable[Out]:
        subscribe = stomp(unit, "SUBSCRIBE")
        if subscribe is None or subscribe.get("ack") not in ("client", "client-individual"):
            return (unit.raw,)
        return self.instead(unit, subscribe.rewritten(change={"ack": "auto"}))


@wire_mutant(
    "stomp.client-mode-is-individual", "STOMP12-SUB-11 STOMP11-SUB-05 STOMP12-ACK-04 STOMP11-ACK-03"
)
class ClientModeIsIndividual(Tampering):
    """In mode client an ACK covers its own message only."""

    def to_broker(self, unit: Unit) -> Iterable[Out]:
        subscribe = stomp(unit, "SUBSCRIBE")
        if subscribe is None or subscribe.get("ack") != "client":
            return (unit.raw,)
        return self.instead(unit, subscribe.rewritten(change={"ack": "client-individual"}))


class Resized(Tampering):
    """Windows of subscriptions are not those that were asked for."""

    by = 0

    def to_broker(self, unit: Unit) -> Iterable[Out]:
        subscribe = stomp(unit, "SUBSCRIBE")
        asked = "" if subscribe is None else subscribe.get("consumer-window-size") or ""
        if subscribe is None or not asked.isdecimal() or not int(asked):
            return (unit.raw,)
        size = max(1, int(asked) + self.by)
        return self.instead(unit, subscribe.rewritten(change={"consumer-window-size": str(size)}))


@wire_mutant("stomp.window-too-wide", "ARTEMIS-STOMP-window-3 ARTEMIS-STOMP-window-1")
class WindowTooWide(Resized):
    """A consumer window is 1500 bytes larger than the client asked for."""

    by = 1500


@wire_mutant("stomp.window-an-octet-too-wide", "ARTEMIS-STOMP-window-3")
class WindowAnOctetTooWide(Resized):
    """A consumer window is one byte larger than the client asked for."""

    by = 1


@wire_mutant(
    "stomp.window-too-narrow",
    "ARTEMIS-STOMP-window-3 ARTEMIS-STOMP-window-1 ARTEMIS-STOMP-window-5",
)
class WindowTooNarrow(Resized):
    """A consumer window is a tenth of what the client asked for."""

    def to_broker(self, unit: Unit) -> Iterable[Out]:
        subscribe = stomp(unit, "SUBSCRIBE")
        asked = "" if subscribe is None else subscribe.get("consumer-window-size") or ""
        if subscribe is None or not asked.isdecimal() or int(asked) < 10:
            return (unit.raw,)
        return self.instead(
            unit, subscribe.rewritten(change={"consumer-window-size": str(int(asked) // 10)})
        )


@wire_mutant("stomp.window-zero-is-none", "ARTEMIS-STOMP-window-2")
class WindowZeroIsNone(Tampering):
    """A consumer window of 0 holds nothing back."""

    def to_broker(self, unit: Unit) -> Iterable[Out]:
        subscribe = stomp(unit, "SUBSCRIBE")
        if subscribe is None or subscribe.get("consumer-window-size") != "0":
            return (unit.raw,)
        return self.instead(unit, subscribe.rewritten(change={"consumer-window-size": "-1"}))


class AnotherBeat(Tampering):
    """The broker hears of another client beat than the client offers, and the client of the one
    that it offered."""

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
    """The end of a connection shows twenty seconds too late."""

    def closing(self) -> Duration:
        self.reached()
        return seconds(20)


@wire_mutant(
    "stomp.answer-asks-for-other-beats",
    "ARTEMIS-STOMP-ttl-3 ARTEMIS-STOMP-ttl-2 ARTEMIS-STOMP-ttl-4 ARTEMIS-STOMP-ttl-6",
)
class AnswerAsksForOtherBeats(Tampering):
    """CONNECTED asks the client for beats a millisecond rarer than the broker said."""

    def from_broker(self, unit: Unit) -> Iterable[Out]:
        connected = stomp(unit, "CONNECTED")
        parts = [] if connected is None else (connected.get("heart-beat") or "").split(",")
        if connected is None or len(parts) != 2 or parts[1] == "0":
            return (unit.raw,)
        return self.instead(
            unit, connected.rewritten(change={"heart-beat": f"{parts[0]},{int(parts[1]) + 1}"})
        )


@wire_mutant("stomp.promise-below-the-floor", "ARTEMIS-STOMP-ttl-7")
class PromiseBelowTheFloor(Tampering):
    """CONNECTED promises beats every millisecond."""

    def from_broker(self, unit: Unit) -> Iterable[Out]:
        connected = stomp(unit, "CONNECTED")
        parts = [] if connected is None else (connected.get("heart-beat") or "").split(",")
        if connected is None or len(parts) != 2 or parts[0] == "0":
            return (unit.raw,)
        return self.instead(unit, connected.rewritten(change={"heart-beat": f"1,{parts[1]}"}))


@wire_mutant(
    "stomp.beats-lost",
    "STOMP12-HB-07 STOMP11-HB-07 STOMP12-HB-09 STOMP11-HB-09 ARTEMIS-STOMP-ttl-9",
)
class BeatsLost(Tampering):
    """Two of three beats of the broker are lost."""

    _seen = 0

    def from_broker(self, unit: Unit) -> Iterable[Out]:
        if not isinstance(unit, Heartbeat):
            return (unit.raw,)
        self._seen += 1
        return (unit.raw,) if self._seen % 3 == 0 else self.instead(unit)


@wire_mutant(
    "stomp.version-missing",
    "STOMP12-CONNECTED-01 STOMP11-CONNECTED-01 STOMP12-NEGO-04 STOMP11-NEGO-04",
)
class VersionMissing(Tampering):
    """CONNECTED does not say which version was agreed on."""

    def from_broker(self, unit: Unit) -> Iterable[Out]:
        connected = stomp(unit, "CONNECTED")
        if connected is None or connected.get("version") is None:
            return (unit.raw,)
        return self.instead(unit, connected.rewritten(change={"version": None}))


@wire_mutant(
    "stomp.error-lost",
    "STOMP12-SUB-03 STOMP11-SUB-03 STOMP12-NEGO-05 STOMP11-NEGO-05 STOMP12-CONNECT-03",
)
class ErrorLost(Tampering):
    """ERROR never arrives: connections end without a word."""

    def from_broker(self, unit: Unit) -> Iterable[Out]:
        return (unit.raw,) if stomp(unit, "ERROR") is None else self.instead(unit)


@wire_mutant("stomp.error-of-no-frame", "STOMP12-ERR-06 STOMP11-ERR-06")
class ErrorOfNoFrame(Tampering):
    """ERROR does not carry the receipt that the frame which caused it had asked for."""

    def from_broker(self, unit: Unit) -> Iterable[Out]:
        error = stomp(unit, "ERROR")
        if error is None or error.get("receipt-id") is None:
            return (unit.raw,)
        return self.instead(unit, error.rewritten(change={"receipt-id": None}))


@wire_mutant(
    "stomp.message-late",
    "ARTEMIS-STOMP-window-4 STOMP12-SUB-02 STOMP11-SUB-02 ARTEMIS-STOMP-window-3",
)
class MessageLate(OneInThree):
    """One MESSAGE in three takes a minute."""

    def tampered(self, message: StompUnit) -> Iterable[Out]:
        return self.instead(message, Late(message.raw, seconds(60)))
