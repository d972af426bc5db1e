"""Smallest frames of AMQP 1.0."""

from collections.abc import Iterator
from typing import Any

from brokerproof.reference_broker.protocols.amqp10 import headers
from brokerproof.reference_broker.protocols.amqp10.composite import Composite
from brokerproof.reference_broker.protocols.amqp10.framing import frame
from brokerproof.reference_broker.protocols.amqp10.messaging import (
    Accepted,
    Coordinator,
    Declare,
    Discharge,
    Received,
    Released,
    Source,
    Target,
)
from brokerproof.reference_broker.protocols.amqp10.performatives import (
    RECEIVER,
    SENDER,
    Attach,
    Begin,
    Detach,
    Disposition,
    End,
    Flow,
    Open,
    Transfer,
)
from brokerproof.reference_broker.protocols.amqp10.types import Described, Symbol
from brokerproof.reference_broker.settings.settings import Acceptor, Settings
from brokerproof.suites.units.drivers.smallest_frames.feed import SCENARIOS, Feed, scenario

AMQP = Settings(acceptors=(Acceptor("amqp", protocols=("AMQP",)), Acceptor("stomp")))
LIMITS = {"incoming_window": 2**31 - 1, "outgoing_window": 2**31 - 1}
BODY = b"\0\x53\x77\xa1\0"
SELECTOR = Symbol("apache.org:selector-filter:string")


def framed(*performatives: Composite, payload: bytes = b"", channel: int = 0) -> bytes:
    return b"".join(
        frame(channel, performative.encode() + payload) for performative in performatives
    )


def amqp(**fields: Any) -> Feed:
    feed = Feed(AMQP, "amqp")
    feed.send(headers.AMQP, framed(Open(container_id="bench", **fields)))
    feed.send(framed(Begin(next_outgoing_id=0, **LIMITS)))
    return feed


def sender(handle: int, address: str | None = "q") -> Attach:
    return Attach(
        name=f"s{handle}",
        handle=handle,
        role=SENDER,
        initial_delivery_count=0,
        source=Source(),
        target=Target(address=address, capabilities=("queue",)),
    )


def coordinator(handle: int) -> Attach:
    control = sender(handle)
    control.target = Coordinator()
    return control


def receiver(handle: int, address: str = "q") -> Attach:
    return Attach(
        name=f"r{handle}",
        handle=handle,
        role=RECEIVER,
        source=Source(address=address, capabilities=("queue",)),
        target=Target(),
    )


def flow(handle: int | None = None, credit: int | None = None, **fields: Any) -> Flow:
    link = {} if handle is None else {"handle": handle, "link_credit": credit}
    fields = {"next_incoming_id": None, "next_outgoing_id": 0, **LIMITS, **link, **fields}
    return Flow(**fields)


def amqp_deliveries(count: int, credit: int | None = None) -> Feed:
    """Feed a connection with ``count`` unsettled deliveries on link 0."""
    feed = amqp()
    stomp_sender = feed.beside("stomp")
    stomp_sender.send(b"CONNECT\naccept-version:1.2\nhost:h\n\n\0")
    stomp_sender.send(b"SEND\ndestination:q\ndestination-type:ANYCAST\n\n\0" * count)
    feed.send(framed(receiver(0), flow(0, count if credit is None else credit, delivery_count=0)))
    return feed


def disposition(first: int, last: int | None, state: Any, settled: bool = True) -> Disposition:
    return Disposition(role=RECEIVER, first=first, last=last, settled=settled, state=state)


@scenario("AMQP 1.0: transfers of one byte, more to come")
def amqp_parts(n: int) -> Feed:
    feed = amqp()
    first = Transfer(handle=0, delivery_id=0, delivery_tag=b"t", message_format=0, more=True)
    feed.send(framed(sender(0)), framed(first, payload=b"\0\x53\x77\xb1" + n.to_bytes(4)))
    return feed.measure(framed(Transfer(handle=0, more=True), payload=b"x") * n)


@scenario("AMQP 1.0: empty transfers, more to come")
def amqp_no_parts(n: int) -> Feed:
    feed = amqp()
    first = Transfer(handle=0, delivery_id=0, delivery_tag=b"t", message_format=0, more=True)
    feed.send(framed(sender(0)), framed(first))
    return feed.measure(framed(Transfer(handle=0, more=True)) * n)


@scenario("AMQP 1.0: windows that close and open, with many links")
def amqp_windows(n: int) -> Feed:
    feed = amqp()
    feed.send(*(framed(receiver(handle, f"q{handle}")) for handle in range(n)))
    shut = Flow(next_incoming_id=0, next_outgoing_id=0, incoming_window=0, outgoing_window=1)
    return feed.measure(framed(shut, flow(next_incoming_id=0)) * n)


@scenario("AMQP 1.0: flow of a link with a selector and echo, messages waiting")
def amqp_selected_echoes(n: int) -> Feed:
    feed = amqp_deliveries(n, credit=0)
    chosen = receiver(1)
    chosen.name = "selector"
    chosen.source.filter = {SELECTOR: Described(SELECTOR, "x = 1")}
    feed.send(framed(chosen))
    return feed.measure(framed(flow(1, 0, delivery_count=0, echo=True)) * n)


@scenario("AMQP 1.0: dispositions of a long range, received")
def amqp_received(n: int) -> Feed:
    feed = amqp_deliveries(n)
    state = Received(section_number=0, section_offset=0)
    return feed.measure(framed(disposition(0, n - 1, state, settled=False)) * n)


@scenario("AMQP 1.0: dispositions beside a broken link's deliveries")
def amqp_errant(n: int) -> Feed:
    feed = amqp_deliveries(n)
    other = feed.beside("amqp")
    begin = Begin(next_outgoing_id=0, **LIMITS)
    other.send(headers.AMQP, framed(Open(container_id="bench"), begin))
    other.send(framed(receiver(0)))
    return feed.measure(framed(disposition(2 * n, None, Accepted())) * n)


@scenario("AMQP 1.0: begin, then end")
def amqp_sessions(n: int) -> Feed:
    begin = Begin(next_outgoing_id=0, **LIMITS)
    feed = amqp().measure(framed(begin, channel=channel) for channel in range(1, n + 1))
    return feed.measure(framed(End(), channel=channel) for channel in range(1, n + 1))


@scenario("AMQP 1.0: begin above the peer's channel-max")
def amqp_high_channels(n: int) -> Feed:
    begin = Begin(next_outgoing_id=0, **LIMITS)
    feed = amqp(channel_max=n)
    return feed.measure(framed(begin, channel=2 * n + channel) for channel in range(n))


@scenario("AMQP 1.0: transactions with many links")
def amqp_transactions(n: int) -> Feed:
    feed = amqp()
    feed.send(framed(coordinator(0)), *(framed(sender(handle)) for handle in range(1, n)))
    return feed.measure(_declares_and_discharges(feed, n))


def _declares_and_discharges(feed: Feed, n: int) -> Iterator[bytes]:
    declare = b"\0\x53\x77" + Declare().encode()
    for number in range(n):
        id = (number + 1).to_bytes(8)
        discharge = b"\0\x53\x77" + Discharge(txn_id=id, fail=False).encode()
        for step, payload in enumerate((declare, discharge)):
            yield framed(
                Transfer(
                    handle=0, delivery_id=2 * number + step, delivery_tag=b"t", message_format=0
                ),
                payload=payload,
            )


SCENARIOS.update(
    {
        "AMQP 1.0: empty frames": lambda n: amqp().measure(frame(0, b"") * n),
        "AMQP 1.0: messages without consumers": lambda n: (
            amqp()
            .after(framed(sender(0)))
            .measure(
                framed(
                    Transfer(
                        handle=0,
                        delivery_id=number,
                        delivery_tag=b"t",
                        message_format=0,
                        settled=True,
                    ),
                    payload=BODY,
                )
                for number in range(n)
            )
        ),
        "AMQP 1.0: flow of the session, with many links": lambda n: (
            amqp()
            .after(*(framed(receiver(handle, f"q{handle}")) for handle in range(n)))
            .measure(framed(flow()) * n)
        ),
        "AMQP 1.0: flow of a link with echo, messages waiting": lambda n: amqp_deliveries(
            n, credit=0
        ).measure(framed(flow(0, 0, delivery_count=0, echo=True)) * n),
        "AMQP 1.0: accepted one by one, the oldest first": lambda n: amqp_deliveries(n).measure(
            framed(disposition(id, None, Accepted())) for id in range(n)
        ),
        "AMQP 1.0: accepted one by one, the newest first": lambda n: amqp_deliveries(n).measure(
            framed(disposition(id, None, Accepted())) for id in reversed(range(n))
        ),
        "AMQP 1.0: released one by one without credit, the oldest first": lambda n: amqp_deliveries(
            n
        ).measure(framed(disposition(id, None, Released())) for id in range(n)),
        "AMQP 1.0: dispositions of a long range that is settled": lambda n: (
            amqp_deliveries(2 * n)
            .after(framed(disposition(0, n - 1, Accepted())))
            .measure(framed(disposition(0, n - 1, Accepted())) * n)
        ),
        "AMQP 1.0: dispositions of a long range behind what is unsettled": lambda n: (
            amqp_deliveries(n).measure(framed(disposition(2 * n, 8 * n, Accepted())) * n)
        ),
        "AMQP 1.0: attach and detach in turn, beside unsettled deliveries": lambda n: (
            amqp_deliveries(n).measure(
                framed(receiver(1, "other"), Detach(handle=1, closed=True)) * n
            )
        ),
        "AMQP 1.0: attach to one queue, then detach": lambda n: (
            amqp()
            .measure(framed(receiver(handle)) for handle in range(n))
            .measure(framed(Detach(handle=handle, closed=True)) for handle in range(n))
        ),
        "AMQP 1.0: attach of senders, then detach": lambda n: (
            amqp()
            .measure(framed(sender(handle)) for handle in range(n))
            .measure(framed(Detach(handle=handle, closed=True)) for handle in range(n))
        ),
    }
)
