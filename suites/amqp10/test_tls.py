"""AMQP over TLS (5.2), and clients that are identified by their certificates (SASL EXTERNAL).

The acceptor amqp-tls presents a certificate made for this run; every connection here verifies it.
In virtual time there is no TLS; a client just states its certificate.
"""

import pytest
from hypothesis import strategies as st

from brokerproof.suites.amqp10.steps import UNREAD, bystander, granted, reaction, ready_sender
from brokerproof.suites.amqp10.test_security import mechanisms, plain_response
from brokerproof.suites.api import (
    CERTIFIED,
    NOBODY,
    STRANGER,
    Bench,
    Certificate,
    case,
    over,
    seconds,
)
from brokerproof.suites.api.amqp10 import HEADER, SASL_ID, AmqpPeer, either, frame

IMPLICIT_TLS = "AMQP10-TLS-02"
HEADERS_AFTER_SASL = "AMQP10-SASL-12"
TLS_HEADER = "AMQP10-TLS-01"
PROTOCOL_ID_REFUSED = "AMQP10-VER-12"
SASL_OUTCOME_CODE = "AMQP10-SASL-11"
SECURITY_LAYER_CLOSES_TCP = "AMQP10-SASL-14"
CLIENT_CERTIFICATE_REQUIRED = "ARTEMIS-TLS-client-1"

ACCEPTOR = "amqp-tls"
TLS_ID = 2
TLS_SESSION = "ARTEMIS-TLS-ssl-1"
SERVER_CERTIFICATE = "ARTEMIS-TLS-ssl-2"
SASL_EXTERNAL = "ARTEMIS-TLS-external-1"


def secured(target: Bench, certificate: Certificate | None = None) -> AmqpPeer:
    """Return a TLS connection on which nothing has been sent."""
    return target.amqp_peer(acceptor=ACCEPTOR, certificate=certificate)


def external(peer: AmqpPeer, response: bytes = b"") -> None:
    """Exchange headers and mechanisms, then send EXTERNAL."""
    peer.header(SASL_ID)
    peer.expect(frame(HEADER, id=SASL_ID))
    peer.expect(frame("sasl-mechanisms"))
    peer.send("sasl-init", {"mechanism": "EXTERNAL", "initial-response": response})


@case(
    IMPLICIT_TLS,
    TLS_SESSION,
    SERVER_CERTIFICATE,
    HEADERS_AFTER_SASL,
    needs={"amqp", "tls-fixtures"},
)
@over(examples=8, size=st.sampled_from([0, 16_384, 16_385, 300_000]))
def test_a_session_over_tls(target: Bench, size: int) -> None:
    """A client begins with TLS, verifies the certificate, logs in by PLAIN and opens. Messages that
    span many TLS records arrive whole at a client without TLS and at another over TLS.

    One scenario: a session over TLS from its handshake to its close.
    """
    node, body = target.node(), b"\x5a" * size
    peer = target.amqp(acceptor=ACCEPTOR)
    words = f"TLS was agreed with {peer.channel.security or 'nothing'}"
    target.record_finding((SERVER_CERTIFICATE, IMPLICIT_TLS), bool(peer.channel.security), words)
    words = f"after SASL and a second header, {'an' if peer.opened else 'no'} open arrived"
    target.record_finding(HEADERS_AFTER_SASL, peer.opened is not None, words)
    link = peer.sender(node)
    for _ in range(2):
        granted(target, peer, link)
        peer.publish(link, body, proves=TLS_SESSION)
    for acceptor in (None, ACCEPTOR):
        other = target.amqp(acceptor=acceptor)
        taking = other.receiver(node, credit=1)
        other.disposition(other.delivery(taking, body=body, proves=TLS_SESSION))
        other.detach(taking)
        other.close(proves=TLS_SESSION)


@case(TLS_HEADER, HEADERS_AFTER_SASL, needs={"amqp", "amqp-tls-header"})
@over(examples=4, pause=st.booleans())
def test_the_header_of_tls_begins_tls(target: Bench, pause: bool) -> None:
    """A client without TLS sends the TLS protocol header, whole or in two parts, and gets the same
    header back. TLS follows, and inside it SASL and AMQP with their own headers."""
    peer = target.amqp_peer(acceptor=ACCEPTOR, plain=True)
    if pause:
        peer.write(b"AMQP\x02")
        target.advance(seconds(1) // 10)
        peer.write(b"\x01\x00\x00")
    else:
        peer.header(TLS_ID)
    peer.expect(frame(HEADER, id=TLS_ID, major=1, minor=0, revision=0), proves=TLS_HEADER)
    peer.channel.secure()
    peer.authenticate(target.target.identity.login, target.target.identity.passcode)
    peer.open(proves=HEADERS_AFTER_SASL)
    detail = f"inside is {peer.channel.security}"
    target.record_finding(TLS_HEADER, bool(peer.channel.security), detail)
    peer.begin()
    peer.settle()


@case(PROTOCOL_ID_REFUSED, needs={"amqp", "amqp-tls-header"})
@over(examples=4, id=st.sampled_from([0, SASL_ID, 1]))
def test_another_header_is_answered_with_that_of_tls(target: Bench, id: int) -> None:
    """Where TLS is required, a client without it sends an AMQP, SASL or unknown header. The broker
    answers with the TLS header and ends the connection; another connection still works."""
    with bystander(target):
        peer = target.amqp_peer(acceptor=ACCEPTOR, plain=True)
        peer.header(id)
        peer.expect(
            frame(HEADER, id=TLS_ID, major=1, minor=0, revision=0), proves=PROTOCOL_ID_REFUSED
        )
        peer.expect_end(proves=PROTOCOL_ID_REFUSED)


@case(TLS_SESSION, needs={"amqp", "tls-fixtures"})
@over(examples=4, id=st.sampled_from([0, SASL_ID]))
def test_a_client_in_the_clear_gets_no_session(target: Bench, id: int) -> None:
    """Where TLS is required, a client without it sends an AMQP or SASL header. The broker does not
    answer with that header, so no password is ever sent; other connections still work, with and
    without TLS."""
    before = target.amqp(acceptor=ACCEPTOR)
    with bystander(target):
        peer = target.amqp_peer(acceptor=ACCEPTOR, plain=True)
        peer.header(id)
        served = peer.watch_for(frame(HEADER, id=id), within=seconds(3)) is not None
        detail = f"header {id} in the clear: {'it was answered' if served else peer.instead()}"
        target.record_finding(TLS_SESSION, not served, detail)
    before.settle()
    target.amqp(acceptor=ACCEPTOR).settle()


@case(SASL_OUTCOME_CODE, SECURITY_LAYER_CLOSES_TCP, needs={"amqp", "tls-fixtures", "login"})
def test_wrong_credentials_are_refused_over_tls(target: Bench) -> None:
    """A client over TLS with a wrong PLAIN password gets outcome 1 and is disconnected."""
    with bystander(target):
        peer = secured(target)
        peer.header(SASL_ID)
        peer.expect(frame("sasl-mechanisms"))
        response = plain_response(target, passcode="certainly not this")
        peer.send("sasl-init", {"mechanism": "PLAIN", "initial-response": response})
        outcome = peer.expect(frame("sasl-outcome"), proves=SASL_OUTCOME_CODE)
        detail = f"a wrong password: {outcome.brief()}"
        target.record_finding(SASL_OUTCOME_CODE, outcome.get("code") == 1, detail)
        peer.inbox.clear()
        peer.expect_end(proves=SECURITY_LAYER_CLOSES_TCP)


@case(SASL_EXTERNAL, SASL_OUTCOME_CODE, HEADERS_AFTER_SASL, needs={"amqp", "certificate-fixtures"})
def test_a_certificate_is_a_login(target: Bench) -> None:
    """A client with a user's certificate is offered EXTERNAL and logs in with it. Headers are
    exchanged again, and the client may send and receive."""
    node = target.node()
    peer = secured(target, CERTIFIED)
    peer.header(SASL_ID)
    offer = peer.expect(frame("sasl-mechanisms"))
    target.record_finding(
        SASL_EXTERNAL,
        "EXTERNAL" in mechanisms(offer),
        f"a client with a certificate is offered {offer.brief()}",
    )
    peer.send("sasl-init", {"mechanism": "EXTERNAL", "initial-response": b""})
    peer.expect(frame("sasl-outcome", code=0), proves=(SASL_EXTERNAL, SASL_OUTCOME_CODE))
    peer.open(proves=HEADERS_AFTER_SASL)
    peer.begin()
    link = ready_sender(target, peer, node)
    peer.publish(link, b"certified", proves=SASL_EXTERNAL)
    peer.delivery(peer.receiver(node, credit=1), body=b"certified", proves=SASL_EXTERNAL)


@case(SASL_EXTERNAL, needs={"amqp", "certificate-fixtures", "login"})
@over(examples=4, certificate=st.sampled_from([None, NOBODY]))
def test_without_a_certificate_of_a_user_external_leads_nowhere(
    target: Bench, certificate: Certificate | None
) -> None:
    """A client without a certificate, or with an unlisted one, asks for EXTERNAL. The broker
    refuses it, or answers its open with a close with an error, and no session begins; another
    connection still works."""
    with bystander(target):
        peer = secured(target, certificate)
        external(peer)
        outcome = peer.watch_for(either(frame("sasl-outcome"), UNREAD))
        observed = reaction(peer, outcome)
        if outcome is not None and outcome.get("code") == 0:
            peer.open(answered=False)
            peer.begin(answered=False)
            peer.watch_for(frame("begin"))
            begun_ = any(reply.name == "begin" for reply in peer.inbox)
            closed = [
                reply
                for reply in peer.inbox
                if reply.name == "close" and reply.condition is not None
            ]
            detail = f"{observed}, then {peer.instead()}"
            target.record_finding(SASL_EXTERNAL, not begun_ and bool(closed), detail)
        else:
            refused = outcome is not None or peer.ended is not None
            target.record_finding(SASL_EXTERNAL, refused, observed)


@case(CLIENT_CERTIFICATE_REQUIRED, needs={"amqp", "tls-fixtures"})
def test_a_certificate_that_nobody_vouches_for_gets_no_session(target: Bench) -> None:
    """A client's certificate is from an unknown authority. The broker ends TLS without offering
    SASL mechanisms."""
    with bystander(target):
        peer = secured(target, STRANGER)
        peer.header(SASL_ID)
        served = peer.watch_for(frame("sasl-mechanisms"), within=seconds(3)) is not None
        detail = f"{'mechanisms arrived' if served else peer.instead()}"
        target.record_finding(CLIENT_CERTIFICATE_REQUIRED, not served, detail)
    secured(target, CERTIFIED).authenticate(
        target.target.identity.login, target.target.identity.passcode
    )


@case(TLS_SESSION, SASL_EXTERNAL, needs={"amqp", "tls-fixtures"})
@pytest.mark.parametrize("how", ["PLAIN", "EXTERNAL"])
def test_proton_speaks_over_tls(target: Bench, how: str) -> None:
    """Proton, with its own socket and TLS, verifies the broker, logs in by PLAIN or by its
    certificate, sends, and receives what it sent."""
    node = target.node()
    certificate = CERTIFIED if how == "EXTERNAL" else None
    peer = target.proton_blocking(
        acceptor=ACCEPTOR, certificate=certificate, proves=(TLS_SESSION, SASL_EXTERNAL)
    )
    sender = peer.sender(
        node.address, capabilities=node.capabilities, proves=(TLS_SESSION, SASL_EXTERNAL)
    )
    peer.publish(sender, "over TLS " * 10_000, proves=(TLS_SESSION, SASL_EXTERNAL))
    receiver = peer.receiver(
        node.address, credit=1, capabilities=node.capabilities, proves=(TLS_SESSION, SASL_EXTERNAL)
    )
    got = peer.receive(receiver, proves=(TLS_SESSION, SASL_EXTERNAL))
    detail = f"{len(got.body)} characters arrived"
    target.record_finding((TLS_SESSION, SASL_EXTERNAL), got.body == "over TLS " * 10_000, detail)
    receiver.accept()
    peer.close(proves=(TLS_SESSION, SASL_EXTERNAL))


@case(TLS_SESSION, needs={"amqp", "tls-fixtures"})
def test_what_was_sent_before_a_half_close_counts(target: Bench) -> None:
    """A client sends a settled message, close_notify and FIN. The broker delivers the message and
    ends the connection."""
    node = target.node()
    peer = target.amqp(acceptor=ACCEPTOR)
    link = ready_sender(target, peer, node)
    peer.publish(link, b"last words", settled=True)
    peer.channel.half_close()
    other = target.amqp()
    other.delivery(other.receiver(node, credit=1), body=b"last words", proves=TLS_SESSION)
    peer.expect_end(proves=TLS_SESSION)
