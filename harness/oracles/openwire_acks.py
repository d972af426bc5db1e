"""Producer windows over OpenWire: compares the bytes that the broker acknowledged with those sent.

Sources: the documentation of ProducerAck (OPENWIRE-ACK-1, -2), and Message.getSize and Queue.send
of ActiveMQ 6.3.1. The trace records the size that ActiveMQ counts for a message as its ``cost``. A
message that requests a response receives one and is not included in any ProducerAck."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from brokerproof.harness.model.finding import Finding
from brokerproof.harness.model.verdicts import Seen
from brokerproof.harness.trace.events import Event, FrameReceived, FrameSent

TAKEN, ONLY = "OPENWIRE-ACK-1", "OPENWIRE-ACK-2"
PROTOCOL = "OPENWIRE"


@dataclass(slots=True)
class Producer:
    """One producer: its window, what it sent without requesting responses, and what the broker
    acknowledged, all in bytes."""

    window: int
    sent: int = 0
    taken: int = 0
    most: int = 0
    """The largest number of bytes that were unacknowledged at the same time."""


def producers(events: Sequence[Event], conn: int) -> tuple[dict[str, Producer], list[str]]:
    """Return the final state of each producer on connection ``conn``, and the errors found."""
    by_id: dict[str, Producer] = {}
    wrong: list[str] = []
    for event in events:
        if (
            not isinstance(event, FrameSent | FrameReceived)
            or event.conn != conn
            or event.protocol != PROTOCOL
        ):
            continue
        fields = dict(reversed(event.headers))
        name = fields.get("producerId", "")
        if isinstance(event, FrameSent):
            if event.command == "ProducerInfo":
                by_id[name] = Producer(int(fields.get("windowSize", "0")))
            elif (
                event.command.endswith("Message")
                and name in by_id
                and fields["responseRequired"] == "false"
            ):
                one = by_id[name]
                one.sent += int(fields["cost"])
                one.most = max(one.most, one.sent - one.taken)
        elif event.command == "ProducerAck":
            wrong += _took(by_id.get(name), name, int(fields["size"]))
    return by_id, wrong


def _took(producer: Producer | None, name: str, size: int) -> Iterator[str]:
    if producer is None:
        yield f"a ProducerAck names {name}, which is no producer of this connection"
    elif producer.window <= 0:
        yield f"producer {name} has no window, but got a ProducerAck for {size} bytes"
    else:
        producer.taken += size
        if producer.taken > producer.sent:
            yield (
                f"{producer.taken} bytes of producer {name} were acknowledged; it had sent"
                f" {producer.sent}"
            )


def acks(events: Sequence[Event], conn: int) -> list[Finding]:
    """Check the ProducerAcks on connection ``conn`` once all of them should have arrived."""
    accounts, wrong = producers(events, conn)
    findings = [Finding(ONLY, Seen.VIOLATED, detail) for detail in wrong]
    if not wrong:
        seen = Seen.HELD if accounts else Seen.NEVER_REACHED
        findings.append(
            Finding(ONLY, seen, f"no surplus ProducerAck for {len(accounts)} producers")
        )
    for name, producer in accounts.items():
        if producer.window > 0 and producer.sent:
            held = producer.taken == producer.sent
            detail = (
                f"producer {name} sent {producer.sent} bytes; {producer.taken} were acknowledged"
            )
            findings.append(Finding(TAKEN, Seen.HELD if held else Seen.VIOLATED, detail))
    if all(finding.requirement != TAKEN for finding in findings):
        findings.append(
            Finding(
                TAKEN,
                Seen.NEVER_REACHED,
                "no producer with a window sent without asking for a response",
            )
        )
    return findings
