"""STOMP over TLS, and clients that are identified by their certificates.

The acceptors stomp-tls (clients may present a certificate) and stomp-tls-need (clients must)
present a certificate made for this run, which every connection here verifies. In virtual time there
is no TLS; a client just states its certificate.
"""

import pytest
from hypothesis import strategies as st

from brokerproof.suites.api import (
    CERTIFIED,
    NOBODY,
    STRANGER,
    Bench,
    Certificate,
    case,
    ms,
    over,
    seconds,
)
from brokerproof.suites.api.stomp import CONNECTED, StompPeer, frame
from brokerproof.suites.steps.queues import patterned
from brokerproof.suites.steps.traces import beats_received
from brokerproof.suites.stomp.error_recovery_steps import Bystander, fate_of_stranger

CERTIFICATE_OPTIONAL = "ARTEMIS-TLS-client-2"
SERVER_BEATS = "ARTEMIS-STOMP-ttl-9"
WEBSOCKET = "ARTEMIS-STOMP-ws-1"
LISTED_CERTIFICATE = "ARTEMIS-TLS-user-1"
CERTIFICATE_REQUIRED = "ARTEMIS-TLS-client-1"

MAY, NEED = "stomp-tls", "stomp-tls-need"
SSL = "ARTEMIS-TLS-ssl-1"
SHOWN = "ARTEMIS-TLS-ssl-2"


def without_login(target: Bench) -> tuple[tuple[str, str], ...]:
    """Return the headers of a CONNECT without a login."""
    return tuple(
        header for header in target.connect_headers("1.2") if header[0] not in ("login", "passcode")
    )


def judge_turned_away(target: Bench, peer: StompPeer, proves: str, why: str) -> None:
    """Judge whether this connection gets no session. TLS may end before STOMP can give a reason."""
    admitted = peer.watch_for(CONNECTED, within=seconds(3)) is not None
    detail = f"{why}: {'the client was admitted' if admitted else peer.instead()}"
    target.record_finding(proves, not admitted, detail)


@case(SSL, SHOWN, CERTIFICATE_OPTIONAL, needs={"tls-fixtures"})
@over(examples=12, size=st.sampled_from([0, 1, 16_383, 16_384, 16_385, 300_000]))
def test_a_session_over_tls(target: Bench, size: int) -> None:
    """A client without a certificate verifies the broker's certificate, opens a session over TLS
    and receives a body that spans many TLS records. It exchanges messages with a client without
    TLS."""
    there, back, body = target.destination(), target.destination(), b"\xa5" * size
    plain = target.stomp()
    peer = target.stomp(acceptor=MAY)
    detail = f"TLS was agreed with {peer.channel.security or 'nothing'}"
    target.record_finding(SHOWN, bool(peer.channel.security), detail)
    assert peer.connected is not None
    target.record_held(
        CERTIFICATE_OPTIONAL,
        peer.connected,
        f"without a certificate, the client got {peer.connected.brief()}",
    )
    peer.subscribe(back, proves=SSL)
    plain.subscribe(there)
    peer.publish(back, body, proves=SSL)
    peer.message(body=body, proves=SSL)
    peer.publish(there, body, proves=SSL)
    plain.message(body=body, proves=SSL)
    plain.publish(back, b"from the clear")
    peer.message(body=b"from the clear", proves=SSL)
    peer.request("DISCONNECT", proves=SSL)
    peer.expect_end(proves=SSL)


@case(SSL, SERVER_BEATS, needs={"tls-fixtures", "heart-beat"})
def test_heart_beats_come_over_tls(target: Bench) -> None:
    """CONNECT over TLS asks for a heartbeat every 500 ms. In three seconds at least half of the
    heartbeats arrive, and then a SEND works."""
    peer = target.stomp(acceptor=MAY, heart_beat="2000,500")
    assert peer.connected is not None
    promised = int((peer.connected.get("heart-beat") or "0,0").split(",")[0])
    detail = f"the server promises too few beats: {peer.connected.brief()}"
    target.control(0 < promised <= 1000, detail)
    for _ in range(6):
        target.advance(ms(500))
        peer.beat()
    beats = len(beats_received(target, peer))
    target.judge_count(
        SERVER_BEATS, "heartbeats in 3 s", beats, (3000 // promised // 2, None), "heartbeats"
    )
    peer.publish(target.destination(), b"after the beats", proves=SSL)


@case(SSL, needs={"tls-fixtures"})
@pytest.mark.parametrize("form", ["sockets", "memory"])
def test_stomppy_speaks_over_tls(target: Bench, form: str) -> None:
    """stomp.py connects over TLS, subscribes and sends. Its messages arrive in order."""
    to = target.destination()
    peer = target.stomppy(acceptor=MAY, threads=form == "sockets", proves=SSL)
    peer.subscribe(to, proves=SSL)
    for body in (b"first", patterned(100_000), b"last"):
        peer.publish(to, body, proves=SSL)
        peer.message(body=body, proves=SSL)
    peer.disconnect(proves=SSL)


@case(SSL, WEBSOCKET, needs={"tls-fixtures", "websocket"})
def test_websocket_over_tls(target: Bench) -> None:
    """A client upgrades to WebSocket over TLS (wss), and its STOMP session works."""
    requirements = (SSL, WEBSOCKET)
    to = target.destination()
    socket = target.websocket(acceptor=MAY)
    peer = target.stomp(over=socket)
    peer.subscribe(to, proves=requirements)
    peer.publish(to, patterned(60_000), proves=requirements)
    peer.message(body=patterned(60_000), proves=requirements)


@case(SSL, needs={"tls-fixtures"})
@over(examples=4, first=st.sampled_from(["CONNECT", "STOMP", "beat", "GET"]))
def test_a_client_in_the_clear_gets_no_session(target: Bench, first: str) -> None:
    """CONNECT, STOMP, a line end or an HTTP request sent without TLS opens no session on a TLS
    acceptor. Another connection works, and the acceptor admits TLS clients before and after."""
    bystander = Bystander(target, "1.2")
    before = target.stomp(acceptor=MAY)
    peer = target.peer(acceptor=MAY, plain=True)
    match first:
        case "beat":
            peer.beat()
        case "GET":
            peer.write(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
        case _:
            peer.send(first, target.connect_headers("1.2"))
    judge_turned_away(target, peer, SSL, f"{first} in the clear")
    bystander.check()
    before.settle()
    target.stomp(acceptor=MAY).settle()


@case(SSL, needs={"tls-fixtures"})
def test_what_was_sent_before_a_half_close_counts(target: Bench) -> None:
    """A client sends a message without a receipt, then close_notify and FIN. The message is
    delivered and the broker closes the connection."""
    to = target.destination()
    consumer = target.stomp()
    consumer.subscribe(to)
    peer = target.stomp(acceptor=MAY)
    peer.publish(to, b"last words" * 5000, receipt=False)
    peer.channel.half_close()
    consumer.message(body=b"last words" * 5000, proves=SSL)
    peer.expect_end(proves=SSL)


@case(LISTED_CERTIFICATE, needs={"certificate-fixtures"})
@over(examples=4, acceptor=st.sampled_from([MAY, NEED]))
def test_a_certificate_is_a_login(target: Bench, acceptor: str) -> None:
    """A client with a user's certificate and no login is admitted, and may send and subscribe."""
    to = target.destination()
    peer = target.peer(acceptor=acceptor, certificate=CERTIFIED)
    peer.connect(without_login(target), proves=LISTED_CERTIFICATE)
    peer.subscribe(to, proves=LISTED_CERTIFICATE)
    peer.publish(to, b"certified", proves=LISTED_CERTIFICATE)
    peer.message(body=b"certified", proves=LISTED_CERTIFICATE)


@case(LISTED_CERTIFICATE, needs={"certificate-fixtures", "login"})
@over(examples=4, certificate=st.sampled_from([None, NOBODY]))
def test_a_certificate_of_nobody_is_no_login(
    target: Bench, certificate: Certificate | None
) -> None:
    """A client without login, and with no certificate or an unlisted one, gets an ERROR and is
    disconnected. A client with a listed certificate is admitted first."""
    bystander = Bystander(target, "1.2")
    target.peer(acceptor=MAY, certificate=CERTIFIED).connect(without_login(target))
    peer = target.peer(acceptor=MAY, certificate=certificate)
    peer.send("CONNECT", without_login(target))
    admitted = peer.watch_for(CONNECTED) is not None
    seen = fate_of_stranger(target, peer)
    target.record_finding(
        LISTED_CERTIFICATE, not admitted and seen.explained and seen.ended is not None, str(seen)
    )
    bystander.check()


@case(CERTIFICATE_REQUIRED, needs={"tls-fixtures"})
@over(examples=4, certificate=st.sampled_from([None, STRANGER]))
def test_a_client_must_show_a_certificate(target: Bench, certificate: Certificate | None) -> None:
    """On an acceptor that requires certificates, a client without one, or with one from an unknown
    authority, gets no session. A client with a valid certificate is admitted before and after."""
    bystander = Bystander(target, "1.2")
    target.stomp(acceptor=NEED, certificate=CERTIFIED).settle()
    peer = target.peer(acceptor=NEED, certificate=certificate)
    peer.send("CONNECT", target.connect_headers("1.2"))
    who = "nobody" if certificate is None else certificate.subject
    judge_turned_away(target, peer, CERTIFICATE_REQUIRED, f"certificate of {who}")
    bystander.check()
    again = target.stomp(acceptor=NEED, certificate=CERTIFIED)
    again.send("BEGIN", {"transaction": again.transaction, "receipt": "again"})
    again.expect(frame("RECEIPT", {"receipt-id": "again"}), proves=CERTIFICATE_REQUIRED)
