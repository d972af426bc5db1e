"""Faults on the wire of AMQP 1.0."""

from collections.abc import Iterable

from brokerproof.harness.protocols.amqp10 import codec
from brokerproof.suites.mutation.wire.mutant import (
    Tampering,
    amqp,
    from_broker,
    to_broker,
    wire_mutant,
)
from brokerproof.suites.mutation.wire.stream_splitter import AmqpUnit, Heartbeat, Unit
from brokerproof.suites.mutation.wire.tampering import Out

SERIAL = 1 << 32


@from_broker("flow", "ARTEMIS-FLOW-amqp-1")
def credit_too_large(flow):
    """Producers get one credit more than the broker grants."""
    credit = flow.frame.get("link-credit")
    return {"link-credit": credit + 1} if credit else None


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


@from_broker("flow", "AMQP10-CREDIT-12 AMQP10-CREDIT-24")
def drain_not_answered(flow):
    """The flow that answers a drain never arrives."""
    answers = flow.frame.get("handle") is not None and flow.frame.get("link-credit") == 0
    return () if answers else None


@from_broker("flow", "AMQP10-CREDIT-12 AMQP10-CREDIT-16 AMQP10-CREDIT-05 AMQP10-CREDIT-02")
def delivery_count_behind(flow):
    """The broker's delivery-count to consumers is one too low."""
    count = flow.frame.get("delivery-count")
    return {"delivery-count": (count - 1) % SERIAL} if count else None


@from_broker("flow", "AMQP10-WIN-11 AMQP10-WIN-01 AMQP10-WIN-04")
def transfer_id_behind(flow):
    """next-outgoing-id in flows is one too low."""
    return {"next-outgoing-id": (flow.frame["next-outgoing-id"] - 1) % SERIAL}


@from_broker("flow", "AMQP10-WIN-11")
def flow_without_window(flow):
    """Flows have no outgoing-window."""
    return {"outgoing-window": None}


@from_broker("flow", "AMQP10-WIN-05 AMQP10-WIN-10")
def incoming_id_behind(flow):
    """next-incoming-id in flows does not count the last transfer."""
    id = flow.frame.get("next-incoming-id")
    return None if id is None else {"next-incoming-id": (id - 1) % SERIAL}


@from_broker("transfer", "AMQP10-XFER-04 AMQP10-CREDIT-09 ARTEMIS-CONCEPTS-queue-1 AMQP10-XFER-06")
def transfer_twice(transfer):
    """A delivery arrives twice, the second time with a new id."""
    id = transfer.frame.get("delivery-id")
    if id is None:
        return None
    return (transfer.raw, transfer.rewritten({"delivery-id": (id + 1) % SERIAL}))


@from_broker("transfer", "AMQP10-XFER-04")
def tag_missing(transfer):
    """Transfers have no delivery-tag."""
    return {"delivery-tag": None}


@from_broker("transfer", "AMQP10-XFER-07")
def format_missing(transfer):
    """Transfers have no message-format."""
    return {"message-format": None} if transfer.frame.get("delivery-id") is not None else None


@from_broker("transfer", "AMQP10-MSG-02")
def payload_changed(transfer):
    """The last byte of a message is changed."""
    data = transfer.frame.payload
    if not data or transfer.frame.get("more"):
        return None
    return (transfer.rewritten({}, payload=data[:-1] + bytes((data[-1] ^ 1,))),)


def _outcome(disposition, told, heard):
    """Return another outcome in place of ``told``."""
    if disposition.frame.kind("state") != told:
        return None
    return {"state": codec.composite(heard)}


@to_broker("disposition", "AMQP10-OUT-09 AMQP10-OUT-08")
def released_is_accepted(disposition):
    """A released message is lost, as if it had been accepted."""
    return _outcome(disposition, "released", "accepted")


@to_broker("disposition", "AMQP10-DISP-03 ARTEMIS-CONCEPTS-queue-2 AMQP10-OUT-02 AMQP10-DISP-06")
def accepted_is_released(disposition):
    """An accepted message is redelivered, as if it had been released."""
    return _outcome(disposition, "accepted", "released")


@to_broker("disposition", "AMQP10-OUT-11 AMQP10-OUT-12 AMQP10-OUT-13")
def modified_is_released(disposition):
    """The fields of modified are ignored: no failed attempt is counted, no annotation merged, no
    consumer spared."""
    return _outcome(disposition, "modified", "released")


@wire_mutant("amqp.outcome-lost", "AMQP10-OUT-01 AMQP10-XFER-14 AMQP10-XFER-08 ARTEMIS-PAGING-8")
class OutcomeLost(Tampering):
    """Every second outcome of the broker is lost."""

    _seen = 0

    def from_broker(self, unit: Unit) -> Iterable[Out]:
        if amqp(unit, "disposition") is None:
            return (unit.raw,)
        self._seen += 1
        return (unit.raw,) if self._seen % 2 else self.instead(unit)


@from_broker("begin", "AMQP10-SESS-02")
def begin_answers_another(begin):
    """The broker's begin names a channel other than the one that it answers."""
    channel = begin.frame.get("remote-channel")
    return None if channel is None else {"remote-channel": channel + 1}


@wire_mutant(
    "amqp.error-without-a-word",
    "AMQP10-SESS-03 AMQP10-SESS-05 AMQP10-SESS-07 AMQP10-LINK-09 AMQP10-ERR-01 AMQP10-ERR-02",
)
class ErrorWithoutAWord(Tampering):
    """Detach, end and close never have an error."""

    def from_broker(self, unit: Unit) -> Iterable[Out]:
        if not isinstance(unit, AmqpUnit) or unit.frame.get("error") is None:
            return (unit.raw,)
        return self.instead(unit, unit.rewritten({"error": None}))


@from_broker("detach", "AMQP10-LINK-08")
def detach_keeps_the_link(detach):
    """A detach that closes is answered by one that does not."""
    return {"closed": False} if detach.frame.get("closed") else None


@wire_mutant("amqp.idle-frames-lost", "AMQP10-IDLE-20 AMQP10-IDLE-19")
class IdleFramesLost(Tampering):
    """The broker's empty frames are lost, except the first."""

    _seen = 0

    def from_broker(self, unit: Unit) -> Iterable[Out]:
        if not isinstance(unit, Heartbeat):
            return (unit.raw,)
        self._seen += 1
        return (unit.raw,) if self._seen == 1 else self.instead(unit)


@to_broker("transfer", "AMQP10-TXN-09 AMQP10-TXN-06")
def discharge_always_fails(transfer):
    """Every discharge reaches the broker as a rollback, and is answered like a commit."""
    payload = transfer.frame.payload
    # A discharge is described by 0x32; its second field is fail.
    if b"\x00\x53\x32" not in payload or not payload.endswith(b"\x42"):
        return None
    return (transfer.rewritten({}, payload=payload[:-1] + b"\x41"),)
