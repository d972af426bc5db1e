"""@stomp/stompjs in Chromium against an acceptor for STOMP: the everyday actions of a web page.

These tests need Chromium and npm, so they are not collected by default: name the file, or run ``tox
-e browser``.
"""

from brokerproof.harness.cases.bench import Bench
from brokerproof.harness.cases.case import case
from brokerproof.harness.clients.client_event import ClientEvent, event_named
from brokerproof.harness.clients.stompjs_in_chromium import StompJsPeer
from brokerproof.harness.model.enums import RoutingType
from brokerproof.harness.model.time import ms, seconds
from brokerproof.harness.protocols.stomp.raw_peer import Destination

WEBSOCKET_ACCEPTED = "ARTEMIS-STOMP-ws-1"
SERVER_HEARTBEATS = "ARTEMIS-STOMP-ttl-9"
CLIENT_HEARTBEATS = "ARTEMIS-STOMP-ttl-3"
INCOMING_MS, OUTGOING_MS = 500, 1000


def open_page(target: Bench, acceptor: str | None = None) -> StompJsPeer:
    """Return a page whose client is connected, with heartbeats in both directions."""
    page = target.stompjs(acceptor=acceptor)
    page.do(
        "connect",
        url=page.url,
        headers=dict(target.connect_headers("1.2")),
        incoming=INCOMING_MS,
        outgoing=OUTGOING_MS,
    )
    connected = page.expect(event_named("connected"), proves=WEBSOCKET_ACCEPTED)
    version, protocol = connected.detail["headers"].get("version"), connected.detail["protocol"]
    held = version == "1.2" and protocol in ("", "v12.stomp", "v11.stomp", "v10.stomp")
    detail = f"STOMP {version} over the sub-protocol {protocol!r}"
    target.record_finding(WEBSOCKET_ACCEPTED, held, detail)
    return page


def publish(page: StompJsPeer, to: Destination, receipt: str, **content: object) -> None:
    page.do(
        "publish", destination=to.name, headers=dict(to.send_headers), receipt=receipt, **content
    )
    page.expect(event_named("receipt", id=receipt), proves=WEBSOCKET_ACCEPTED)


@case(WEBSOCKET_ACCEPTED, needs={"websocket"})
def test_a_page_sends_and_receives(target: Bench) -> None:
    """A page sends text and bytes, which reach a plain client. It subscribes, gets a plain client's
    messages, some of several WebSocket frames, and acknowledges one of three. After it has
    disconnected, another client gets the other two.

    One scenario: one requirement covers the life of a page's connection.
    """
    there, back = target.destination(RoutingType.ANYCAST), target.destination(RoutingType.ANYCAST)
    plain = target.stomp()
    page = open_page(target)
    plain.subscribe(there)
    publish(page, there, "text", body="größer ☕")
    plain.message(body="größer ☕".encode(), proves=WEBSOCKET_ACCEPTED)
    data = bytes([0, 1, 254, 255, 10, 0])
    publish(page, there, "octets", octets=list(data))
    plain.message(body=data, proves=WEBSOCKET_ACCEPTED)
    large = "x" * 100_000
    publish(page, there, "large", body=large)
    plain.message(body=large.encode(), proves=WEBSOCKET_ACCEPTED)

    page.do(
        "subscribe",
        destination=back.name,
        headers={"ack": "client-individual", **dict(back.subscribe_headers)},
    )
    page.expect(event_named("receipt", id="subscribed"), proves=WEBSOCKET_ACCEPTED)
    for body in ("first ☕", "second", large):
        plain.publish(back, body.encode())
    first: ClientEvent = page.expect(
        event_named("message", body="first ☕"), proves=WEBSOCKET_ACCEPTED
    )
    page.expect(event_named("message", body="second"), proves=WEBSOCKET_ACCEPTED)
    page.expect(event_named("message", body=large), proves=WEBSOCKET_ACCEPTED)
    page.do("ack", id=first.detail["id"], receipt="acknowledged")
    page.expect(event_named("receipt", id="acknowledged"), proves=WEBSOCKET_ACCEPTED)
    page.do("deactivate")
    page.expect(event_named("closed"), proves=WEBSOCKET_ACCEPTED)
    page.expect(event_named("deactivated"))
    plain.subscribe(back, "after", ack="client")
    left = plain.message()
    detail = f"the next consumer got {left.body!r}"
    target.record_finding(WEBSOCKET_ACCEPTED, left.body == b"second", detail)


@case(WEBSOCKET_ACCEPTED, needs={"websocket", "tls-fixtures"})
def test_a_page_speaks_over_tls(target: Bench) -> None:
    """A page connects by wss, sends, subscribes and gets messages, some of several frames."""
    there, back = target.destination(RoutingType.ANYCAST), target.destination(RoutingType.ANYCAST)
    plain = target.stomp()
    page = open_page(target, "wss")
    target.control(page.url.startswith("wss://"), f"the page was sent to {page.url}")
    plain.subscribe(there)
    publish(page, there, "text", body="größer ☕")
    plain.message(body="größer ☕".encode(), proves=WEBSOCKET_ACCEPTED)
    page.do(
        "subscribe", destination=back.name, headers={"ack": "auto", **dict(back.subscribe_headers)}
    )
    page.expect(event_named("receipt", id="subscribed"), proves=WEBSOCKET_ACCEPTED)
    for body in ("one", "x" * 100_000):
        plain.publish(back, body.encode())
        page.expect(event_named("message", body=body), proves=WEBSOCKET_ACCEPTED)
    page.do("deactivate")
    page.expect(event_named("closed"), proves=WEBSOCKET_ACCEPTED)
    page.expect(event_named("deactivated"))


@case(
    WEBSOCKET_ACCEPTED,
    SERVER_HEARTBEATS,
    CLIENT_HEARTBEATS,
    needs={"websocket", "heart-beat", "connection-ttl"},
)
def test_an_idle_page_stays_connected_by_heart_beats(target: Bench) -> None:
    """For six seconds, longer than the TTL that its heartbeats imply, a page sends only heartbeats.
    The server's heartbeats arrive, and neither side closes the connection. Then a SEND is
    confirmed."""
    to = target.destination()
    plain = target.stomp()
    plain.subscribe(to)
    page = open_page(target)
    target.advance(seconds(6))
    lines = [step.detail["line"] for step in page.inbox if step.step == "beat"]
    ended = [step.brief() for step in page.inbox if page.fatal(step)]
    arrived, sent = (sum(word in line for line in lines) for word in ("PONG", "PING"))
    detail = f"in 6 s {arrived} beats arrived, {sent} were sent; {ended or 'it is open'}"
    # At least every other agreed heartbeat: a page depends on its browser's timers.
    target.record_finding(
        SERVER_HEARTBEATS, not ended and arrived >= seconds(6) // ms(2 * INCOMING_MS), detail
    )
    target.record_finding(CLIENT_HEARTBEATS, not ended, detail)
    publish_after = "after the silence"
    page.do(
        "publish",
        destination=to.name,
        headers=dict(to.send_headers),
        receipt="after",
        body=publish_after,
    )
    page.expect(event_named("receipt", id="after"), proves=CLIENT_HEARTBEATS)
    plain.message(body=publish_after.encode())
    page.do("deactivate")
    page.expect(event_named("closed"))
    page.expect(event_named("deactivated"))
