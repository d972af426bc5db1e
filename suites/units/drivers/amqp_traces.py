"""AMQP traces written by hand, for tests of oracles, and their verdicts."""

from collections.abc import Callable, Sequence
from typing import Any

from brokerproof.harness.model.finding import Finding, combine
from brokerproof.harness.model.time import ms
from brokerproof.harness.model.verdicts import Seen
from brokerproof.harness.protocols.amqp10.fact_reader import ConnectionEvents, Side
from brokerproof.harness.trace.events import Event, FrameReceived, FrameSent

Oracle = Callable[..., list[Finding]]
LAST = 2**32 - 1


def said(
    kind: type[FrameSent] | type[FrameReceived], name: str, at: int, fields: dict[str, Any]
) -> Event:
    texts = {
        key.replace("_", "-"): str(value).lower() if isinstance(value, bool) else str(value)
        for key, value in fields.items()
    }
    size = int(texts.pop("size", "40"))
    headers = (("channel", texts.pop("channel", "0")), *texts.items())
    return kind(at_ns=ms(at), conn=1, protocol="AMQP", command=name, headers=headers, size=size)


def we(name: str, at: int = 0, /, **fields: Any) -> Event:
    return said(FrameSent, name, at, fields)


def broker(name: str, at: int = 0, /, **fields: Any) -> Event:
    return said(FrameReceived, name, at, fields)


def opened(**ours: Any) -> list[Event]:
    return [we("open", container_id="a", **ours), broker("open", container_id="b")]


def begun(*, window: int = 100, ours: int = 0, theirs: int = 0) -> list[Event]:
    return [
        *opened(),
        we("begin", next_outgoing_id=ours, incoming_window=window, outgoing_window=9),
        broker(
            "begin",
            remote_channel=0,
            next_outgoing_id=theirs,
            incoming_window=window,
            outgoing_window=9,
        ),
    ]


def receiving(initial: int = 0, *, window: int = 100, theirs: int = 0) -> list[Event]:
    """Let the broker send to the client on handle 0 (on both sides)."""
    return [
        *begun(window=window, theirs=theirs),
        we("attach", name="l", handle=0, role="receiver"),
        broker("attach", name="l", handle=0, role="sender", initial_delivery_count=initial),
    ]


def grant(credit: int, count: int | None = 0, **fields: Any) -> Event:
    told = {} if count is None else {"delivery_count": count}
    flow = {
        "next_incoming_id": 0,
        "incoming_window": 100,
        "next_outgoing_id": 0,
        "outgoing_window": 9,
    }
    return we("flow", **{**flow, "handle": 0, "link_credit": credit, **told, **fields})


def answer(**fields: Any) -> Event:
    flow = {
        "next_incoming_id": 0,
        "incoming_window": 100,
        "next_outgoing_id": 0,
        "outgoing_window": 9,
    }
    return broker("flow", **{**flow, **fields})


def delivery(number: int, **fields: Any) -> Event:
    first = {"delivery_id": number, "delivery_tag": f"0x{number:08x}", "message_format": 0}
    return broker("transfer", **{"handle": 0, **first, **fields})


def outcome(
    oracle: Oracle, events: Sequence[Event], side: Side = Side.BROKER, **more: Any
) -> dict[str, Seen]:
    findings = oracle(events, 1, side, **more)
    together = ConnectionEvents(events)
    # frames that oracles share have the same content
    if all(event.conn == 1 for event in together):
        assert oracle(together, 1, side, **more) == findings
        assert oracle(together, 1, side, **more) == findings
    return {finding.requirement: finding.seen for finding in combine(findings)}


def violations(
    oracle: Oracle, events: Sequence[Event], side: Side = Side.BROKER, **more: Any
) -> set[str]:
    return {
        requirement
        for requirement, seen in outcome(oracle, events, side, **more).items()
        if seen is Seen.VIOLATED
    }


def mirrored(events: Sequence[Event]) -> list[Event]:
    turned: list[Event] = []
    for event in events:
        if isinstance(event, (FrameSent, FrameReceived)):
            kind = FrameReceived if isinstance(event, FrameSent) else FrameSent
            turned.append(
                kind(
                    at_ns=event.at_ns,
                    conn=event.conn,
                    protocol=event.protocol,
                    command=event.command,
                    headers=event.headers,
                    size=event.size,
                )
            )
        else:
            turned.append(event)
    return turned
