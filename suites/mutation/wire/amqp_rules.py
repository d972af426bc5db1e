"""Faults on the wire of AMQP 1.0."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from brokerproof.harness.protocols.amqp10 import codec
from brokerproof.suites.mutation.wire.mutant import Tampering, amqp, wire_mutant
from brokerproof.suites.mutation.wire.stream_splitter import AmqpUnit, Heartbeat, Unit
from brokerproof.suites.mutation.wire.tampering import Out

SERIAL = 1 << 32


class Altered(Tampering):
    """One field of one performative of the broker is another."""

    performative = ""

    def change(self, unit: AmqpUnit) -> Mapping[str, Any]:
        """The fields that are changed; none leaves the frame as it is."""
        raise NotImplementedError

    def from_broker(self, unit: Unit) -> Iterable[Out]:
        frame = amqp(unit, self.performative)
        changed = {} if frame is None else self.change(frame)
        return (
            (unit.raw,)
            if frame is None or not changed
            else self.instead(unit, frame.rewritten(changed))
        )


@wire_mutant("amqp.credit-too-large", "ARTEMIS-FLOW-amqp-1")
class CreditTooLarge(Altered):
    """Producers get one credit more than the broker gives."""

    performative = "flow"

    def change(self, unit: AmqpUnit) -> Mapping[str, Any]:
        credit = unit.frame.get("link-credit")
        return {"link-credit": credit + 1} if credit else {}


@wire_mutant("amqp.credit-not-filled-up", "ARTEMIS-FLOW-amqp-1")
class CreditNotFilledUp(Tampering):
    """Producers get credit once and then no more."""

    _given = False

    def from_broker(self, unit: Unit) -> Iterable[Out]:
        flow = amqp(unit, "flow")
        if flow is None or not flow.frame.get("link-credit"):
            return (unit.raw,)
        if not self._given:
            self._given = True
            return (unit.raw,)
        return self.instead(unit)


@wire_mutant("amqp.drain-not-answered", "AMQP10-CREDIT-12 AMQP10-CREDIT-24")
class DrainNotAnswered(Tampering):
    """The flow that answers a drain never comes."""

    def from_broker(self, unit: Unit) -> Iterable[Out]:
        flow = amqp(unit, "flow")
        if flow is None or flow.frame.get("handle") is None or flow.frame.get("link-credit") != 0:
            return (unit.raw,)
        return self.instead(unit)


@wire_mutant(
    "amqp.delivery-count-behind",
    "AMQP10-CREDIT-12 AMQP10-CREDIT-16 AMQP10-CREDIT-05 AMQP10-CREDIT-02",
)
class DeliveryCountBehind(Altered):
    """The delivery-count that the broker tells of its links to consumers is one too small."""

    performative = "flow"

    def change(self, unit: AmqpUnit) -> Mapping[str, Any]:
        count = unit.frame.get("delivery-count")
        return {"delivery-count": (count - 1) % SERIAL} if count else {}


@wire_mutant("amqp.transfer-id-behind", "AMQP10-WIN-11 AMQP10-WIN-01 AMQP10-WIN-04")
class TransferIdBehind(Altered):
    """Flows tell a next-outgoing-id that was used already."""

    performative = "flow"

    def change(self, unit: AmqpUnit) -> Mapping[str, Any]:
        return {"next-outgoing-id": (unit.frame["next-outgoing-id"] - 1) % SERIAL}


@wire_mutant("amqp.flow-without-window", "AMQP10-WIN-11")
class FlowWithoutWindow(Altered):
    """Flows have no outgoing-window."""

    performative = "flow"

    def change(self, unit: AmqpUnit) -> Mapping[str, Any]:
        return {"outgoing-window": None}


@wire_mutant("amqp.incoming-id-behind", "AMQP10-WIN-05 AMQP10-WIN-10")
class IncomingIdBehind(Altered):
    """Flows tell a next-incoming-id that does not count the last transfer."""

    performative = "flow"

    def change(self, unit: AmqpUnit) -> Mapping[str, Any]:
        id = unit.frame.get("next-incoming-id")
        return {} if id is None else {"next-incoming-id": (id - 1) % SERIAL}


@wire_mutant(
    "amqp.transfer-twice", "AMQP10-XFER-04 AMQP10-CREDIT-09 ARTEMIS-CONCEPTS-queue-1 AMQP10-XFER-06"
)
class TransferTwice(Tampering):
    """A delivery comes twice, under an id of its own."""

    def from_broker(self, unit: Unit) -> Iterable[Out]:
        transfer = amqp(unit, "transfer")
        if transfer is None or transfer.frame.get("delivery-id") is None:
            return (unit.raw,)
        again = transfer.rewritten({"delivery-id": (transfer.frame["delivery-id"] + 1) % SERIAL})
        return self.instead(unit, unit.raw, again)


@wire_mutant("amqp.tag-missing", "AMQP10-XFER-04")
class TagMissing(Altered):
    """Transfers have no delivery-tag."""

    performative = "transfer"

    def change(self, unit: AmqpUnit) -> Mapping[str, Any]:
        return {"delivery-tag": None}


@wire_mutant("amqp.format-missing", "AMQP10-XFER-07")
class FormatMissing(Altered):
    """Transfers have no message-format."""

    performative = "transfer"

    def change(self, unit: AmqpUnit) -> Mapping[str, Any]:
        return {"message-format": None} if unit.frame.get("delivery-id") is not None else {}


@wire_mutant("amqp.payload-changed", "AMQP10-MSG-02")
class PayloadChanged(Tampering):
    """The last byte of a message is another."""

    def from_broker(self, unit: Unit) -> Iterable[Out]:
        transfer = amqp(unit, "transfer")
        if transfer is None or not transfer.frame.payload or transfer.frame.get("more"):
            return (unit.raw,)
        data = transfer.frame.payload
        return self.instead(
            unit, transfer.rewritten({}, payload=data[:-1] + bytes((data[-1] ^ 1,)))
        )


class OutcomeReplaced(Tampering):
    """An outcome of the client reaches the broker as another one."""

    said, heard = "", ""

    def to_broker(self, unit: Unit) -> Iterable[Out]:
        disposition = amqp(unit, "disposition")
        if disposition is None or disposition.frame.kind("state") != self.said:
            return (unit.raw,)
        return self.instead(unit, disposition.rewritten({"state": codec.composite(self.heard)}))


@wire_mutant("amqp.released-is-accepted", "AMQP10-OUT-09 AMQP10-OUT-08")
class ReleasedIsAccepted(OutcomeReplaced):
    """A released message is gone, as if it had been accepted."""

    said, heard = "released", "accepted"


@wire_mutant(
    "amqp.accepted-is-released",
    "AMQP10-DISP-03 ARTEMIS-CONCEPTS-queue-2 AMQP10-OUT-02 AMQP10-DISP-06",
)
class AcceptedIsReleased(OutcomeReplaced):
    """An accepted message comes again, as if it had been released."""

    said, heard = "accepted", "released"


@wire_mutant("amqp.modified-is-released", "AMQP10-OUT-11 AMQP10-OUT-12 AMQP10-OUT-13")
class ModifiedIsReleased(OutcomeReplaced):
    """The fields of modified are ignored: no failed attempt is counted, no annotation merged, no
    consumer spared."""

    said, heard = "modified", "released"


@wire_mutant("amqp.outcome-lost", "AMQP10-OUT-01 AMQP10-XFER-14 AMQP10-XFER-08 ARTEMIS-PAGING-8")
class OutcomeLost(Tampering):
    """Every second outcome of the broker is lost."""

    _seen = 0

    def from_broker(self, unit: Unit) -> Iterable[Out]:
        if amqp(unit, "disposition") is None:
            return (unit.raw,)
        self._seen += 1
        return (unit.raw,) if self._seen % 2 else self.instead(unit)


@wire_mutant("amqp.begin-answers-another", "AMQP10-SESS-02")
class BeginAnswersAnother(Altered):
    """The broker's begin names another channel than the one it answers."""

    performative = "begin"

    def change(self, unit: AmqpUnit) -> Mapping[str, Any]:
        channel = unit.frame.get("remote-channel")
        return {} if channel is None else {"remote-channel": channel + 1}


@wire_mutant(
    "amqp.error-without-a-word",
    "AMQP10-SESS-03 AMQP10-SESS-05 AMQP10-SESS-07 AMQP10-LINK-09 AMQP10-ERR-01 AMQP10-ERR-02",
)
class ErrorWithoutAWord(Tampering):
    """Detach, end and close never say what was wrong."""

    def from_broker(self, unit: Unit) -> Iterable[Out]:
        if not isinstance(unit, AmqpUnit) or unit.frame.get("error") is None:
            return (unit.raw,)
        return self.instead(unit, unit.rewritten({"error": None}))


@wire_mutant("amqp.detach-keeps-the-link", "AMQP10-LINK-08")
class DetachKeepsTheLink(Altered):
    """A detach that closes is answered by one that does not."""

    performative = "detach"

    def change(self, unit: AmqpUnit) -> Mapping[str, Any]:
        return {"closed": False} if unit.frame.get("closed") else {}


@wire_mutant("amqp.idle-frames-lost", "AMQP10-IDLE-20 AMQP10-IDLE-19")
class IdleFramesLost(Tampering):
    """The broker's empty frames are lost, but for the first."""

    _seen = 0

    def from_broker(self, unit: Unit) -> Iterable[Out]:
        if not isinstance(unit, Heartbeat):
            return (unit.raw,)
        self._seen += 1
        return (unit.raw,) if self._seen == 1 else self.instead(unit)


@wire_mutant("amqp.discharge-always-fails", "AMQP10-TXN-09 AMQP10-TXN-06")
class DischargeAlwaysFails(Tampering):
    """Every discharge reaches the broker as a rollback, and is answered as if it were none."""

    def to_broker(self, unit: Unit) -> Iterable[Out]:
        transfer = amqp(unit, "transfer")
        if transfer is None:
            return (unit.raw,)
        payload = transfer.frame.payload
        # A discharge is described by 0x32; its second field is fail.
        if b"\x00\x53\x32" not in payload or not payload.endswith(b"\x42"):
            return (unit.raw,)
        return self.instead(unit, transfer.rewritten({}, payload=payload[:-1] + b"\x41"))
