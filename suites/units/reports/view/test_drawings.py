"""Curves over time, and the data that pages need, without Spark or a browser."""

from collections.abc import Sequence
from typing import Any

import pytest

from brokerproof.harness.model.time import ms
from brokerproof.harness.trace import events as ev
from brokerproof.harness.trace.columns import FIELDS
from brokerproof.reports.model.curves import MOST_POINTS, curves
from brokerproof.reports.model.slugs import plain_slug
from brokerproof.reports.view.templates import templates


def rows(events: Sequence[ev.Event]) -> list[dict[str, Any]]:
    found = []
    for event in events:
        kind = type(event).__name__
        row: dict[str, Any] = {"at_ns": event.at_ns, "conn": event.conn, "kind": kind}
        row |= {name: getattr(event, name) for name in FIELDS[kind] if name != "body_size"}
        row["body"] = row["body"].decode()
        found.append(row)
    return found


def stomp(at: int, command: str, *, size: int = 0, body: bytes = b"", **headers: str) -> ev.Event:
    """A frame at an instant in milliseconds; its command decides whether it is sent or received."""
    kind = ev.FrameReceived if command == "MESSAGE" else ev.FrameSent
    named = tuple((name.replace("__", "-"), value) for name, value in headers.items())
    return kind(
        at_ns=ms(at), conn=1, protocol="STOMP", command=command, headers=named, body=body, size=size
    )


def test_what_a_subscription_holds_follows_deliveries_and_acknowledgements() -> None:
    asked = {"id": "7", "ack": "client", "consumer__window__size": "1000"}
    events = [stomp(0, "SUBSCRIBE", **asked)]
    events += [
        stomp(number, "MESSAGE", size=400, subscription="7", ack=f"a{number}")
        for number in (1, 2, 3)
    ]
    events += [stomp(5, "ACK", id="a2"), stomp(6, "ACK", id="a3")]  # the first of them covers two
    (found,) = curves(iter(rows(events)))
    assert found.points == [
        (0, 0),
        (ms(1), 400),
        (ms(2), 800),
        (ms(3), 1200),
        (ms(5), 400),
        (ms(6), 0),
    ]
    assert (found.unit, found.bounds) == ("octets", [(1000, "consumer-window-size")])


def amqp(at: int, command: str, *, sent: bool, **fields: object) -> ev.Event:
    kind = ev.FrameSent if sent else ev.FrameReceived
    named = (
        ("channel", "0"),
        *((name.replace("_", "-"), str(value).lower()) for name, value in fields.items()),
    )
    return kind(at_ns=at, conn=1, protocol="AMQP", command=command, headers=named)


def test_the_credit_of_a_link_follows_flows_and_transfers() -> None:
    events = [
        amqp(0, "begin", sent=True),
        amqp(0, "begin", sent=False, remote_channel=0),
        amqp(1, "attach", sent=True, name="l", handle=0, role="sender", initial_delivery_count=5),
        amqp(1, "attach", sent=False, name="l", handle=9, role="receiver"),
        amqp(2, "flow", sent=False, handle=9, delivery_count=5, link_credit=2),
        amqp(3, "transfer", sent=True, handle=0, delivery_id=0, more=True),
        amqp(4, "transfer", sent=True, handle=0),
        amqp(5, "transfer", sent=True, handle=0, delivery_id=1),
        amqp(6, "transfer", sent=True, handle=0, delivery_id=2),
    ]
    (found,) = curves(iter(rows(events)))
    # Two transfers of one delivery cost one credit; the last delivery exceeded the granted credit.
    assert found.points == [(2, 2), (3, 1), (4, 1), (5, 0), (6, -1)]
    assert found.bounds == [(0, "no credit")]


def test_the_window_of_a_session_follows_flows_and_transfers() -> None:
    events = [
        amqp(0, "begin", sent=True, next_outgoing_id=7),
        amqp(0, "begin", sent=False, remote_channel=0, next_outgoing_id=0, incoming_window=2),
        amqp(1, "attach", sent=True, name="l", handle=0, role="sender"),
        amqp(1, "attach", sent=False, name="l", handle=9, role="receiver"),
        amqp(2, "transfer", sent=True, handle=0, delivery_id=0, more=True),
        amqp(3, "transfer", sent=True, handle=0),
        amqp(4, "flow", sent=False, next_incoming_id=8, incoming_window=2),
        amqp(5, "transfer", sent=True, handle=0, delivery_id=1),
    ]
    (found,) = curves(iter(rows(events)))
    assert found.points == [(2, 1), (3, 0), (4, 1), (5, 0)]
    assert found.title == "transfers left in the session's window (connection 1, harness sends)"
    assert found.bounds == [(0, "window shut")]


def basic(at: int, command: str, *, sent: bool, **fields: object) -> ev.Event:
    kind = ev.FrameSent if sent else ev.FrameReceived
    named = (
        ("channel", "1"),
        *((name.replace("_", "-"), str(value).lower()) for name, value in fields.items()),
    )
    return kind(at_ns=at, conn=1, protocol="AMQP091", command=f"basic.{command}", headers=named)


def test_what_consumers_of_amqp_0_9_1_hold_is_drawn_against_their_prefetch() -> None:
    events = [
        basic(0, "qos", sent=True, prefetch_count=2, **{"global": False}),
        basic(1, "consume", sent=True, consumer_tag="", no_ack=False, no_wait=False),
        basic(2, "consume-ok", sent=False, consumer_tag="a"),
        basic(2, "consume", sent=True, consumer_tag="silent", no_ack=True, no_wait=True),
        *(
            basic(2 + number, "deliver", sent=False, consumer_tag="a", delivery_tag=number)
            for number in (1, 2)
        ),
        basic(5, "deliver", sent=False, consumer_tag="silent", delivery_tag=3),
        basic(6, "ack", sent=True, delivery_tag=2, multiple=True),
    ]
    (found,) = curves(iter(rows(events)))
    assert found.points == [(2, 0), (3, 1), (4, 2), (6, 0)]
    assert found.bounds == [(2, "prefetch-count")]


LIMITED = [
    {
        "match": "full.#",
        "max_size_bytes": 2000,
        "page_size_bytes": 100,
        "address_full_policy": "PAGE",
    },
    {
        "match": "full.few.#",
        "max_size_messages": 2,
        "page_limit_bytes": 250,
        "max_size_bytes_reject_threshold": 90_000,
    },
    {"match": "elsewhere", "max_size_bytes": 1},
]


def asked(attribute: str, *told: int) -> list[ev.Event]:
    events = []
    for number, each in enumerate(told):
        question = {
            "_AMQ_ResourceName": "address.full.few.a",
            "_AMQ_Attribute": attribute,
            "reply__to": "here",
        }
        events.append(stomp(number, "SEND", correlation__id=str(number), **question))
        said = {"destination": "here", "correlation__id": str(number)}
        events.append(stomp(number, "MESSAGE", body=f"[{each}]".encode(), subscription="x", **said))
    return events


@pytest.mark.parametrize(
    ("attribute", "told", "title", "bounds"),
    [
        (
            "addressSize",
            (0, 512, 2048),
            "size",
            [(2000, "max-size-bytes, PAGE"), (90_000, "max-size-bytes-reject-threshold")],
        ),
        ("messageCount", (0, 1, 2), "messages", [(2, "max-size-messages, PAGE")]),
        ("numberOfPages", (0, 1, 3), "pages", [(3, "page-limit-bytes")]),
    ],
)
def test_what_the_broker_says_of_an_address_is_a_curve_with_its_limits(
    attribute: str, told: tuple[int, ...], title: str, bounds: list[tuple[int, str]]
) -> None:
    (found,) = curves(iter(rows(asked(attribute, *told))), LIMITED)
    assert found.title == f"{title} of full.few.a, as reported by the broker"
    assert [value for _, value in found.points] == list(told)
    assert found.bounds == bounds


def test_without_a_configuration_an_address_has_no_limits() -> None:
    (found,) = curves(iter(rows(asked("addressSize", 0, 512))))
    assert found.bounds == []


def test_a_long_curve_keeps_its_extremes() -> None:
    events = [stomp(0, "SUBSCRIBE", id="1", ack="client-individual")]
    events += [
        stomp(number, "MESSAGE", size=1, subscription="1", ack=str(number))
        for number in range(1, 5000)
    ]
    events.append(stomp(5000, "MESSAGE", size=10**6, subscription="1", ack="peak"))
    events.append(stomp(5001, "ACK", id="peak"))
    (found,) = curves(iter(rows(events)))
    assert len(found.points) <= MOST_POINTS + 3
    assert max(value for _, value in found.points) == 10**6 + 4999


def test_a_page_trusts_only_the_scripts_it_came_with() -> None:
    trusted = str(templates().globals["trusted"])
    assert trusted.count("'sha256-") == 5
    assert "unsafe" not in trusted


def test_names_of_pages_are_safe_and_apart() -> None:
    names = [
        "STOMP12-HB-04",
        "../x",
        "..-x",
        "localhost:61613",
        "localhost-61613",
        "wire:a@b",
        "ä" * 300,
    ]
    found = [plain_slug(name) for name in names]
    assert found[0] == names[0]
    assert len(set(found)) == len(names)
    assert all(
        name.isascii() and "/" not in name and not name.startswith(".") and len(name) < 100
        for name in found
    )
