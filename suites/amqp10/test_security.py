"""SASL (part 5): mechanisms, right and wrong credentials, and malformed frames."""

from hypothesis import strategies as st

from brokerproof.harness.protocols.amqp10 import codec
from brokerproof.harness.protocols.amqp10.codec import SASL_FRAME
from brokerproof.harness.protocols.amqp10.trace_recorder import UNREADABLE
from brokerproof.suites.amqp10.steps import bystander, reaction
from brokerproof.suites.api import Bench, Duration, Match, case, over, seconds, shown
from brokerproof.suites.api.amqp10 import (
    HEADER,
    SASL_ID,
    AmqpPeer,
    Array,
    Frame,
    Value,
    either,
    frame,
)

SASL_HEADER = "AMQP10-SASL-01"
SASL_FRAME_TYPE = "AMQP10-SASL-02"
SASL_FRAME_HEADER = "AMQP10-SASL-03"
SASL_FRAME_SIZE = "AMQP10-SASL-04"
NO_SASL_ENDS = "AMQP10-READING-SASL-01"
SASL_BODY = "AMQP10-SASL-05"
SASL_MECHANISMS = "AMQP10-SASL-07"
SASL_OUTCOME_CODE = "AMQP10-SASL-11"
HEADERS_AFTER_SASL = "AMQP10-SASL-12"
NO_ADDITIONAL_DATA = "AMQP10-SASL-13"
SECURITY_LAYER_CLOSES_TCP = "AMQP10-SASL-14"
SASL_MECHANISM_REFUSED = "AMQP10-SASL-10"
OTHER_SPELLING_REFUSED = "AMQP10-READING-SASL-02"
SASL_EMPTY_FRAME = "AMQP10-SASL-06"

SMALLEST = 512
"""MIN-MAX-FRAME-SIZE: no SASL frame is larger."""
NO_SUCH = "BROKERPROOF-NO-SUCH"
SOON: Duration = seconds(5)
"""After a failed login the connection should end within this time, before any handshake
time-out."""


def begun(target: Bench, proves: str | tuple[str, ...] | None = None) -> tuple[AmqpPeer, Frame]:
    """Exchange the SASL headers; return the connection and the broker's mechanisms."""
    peer = target.amqp_peer()
    has_sasl = peer.mechanism != codec.NO_SASL
    target.control(has_sasl, "the broker has no SASL layer", optional=True)
    peer.header(SASL_ID)
    peer.expect(frame(HEADER, id=SASL_ID, major=1, minor=0, revision=0), proves=proves)
    return peer, peer.expect(frame("sasl-mechanisms"), proves=proves)


def mechanisms(offer: Frame) -> list[str]:
    names = offer.get("sasl-server-mechanisms")
    return [names] if isinstance(names, str) else list(names or ())


def plain_response(target: Bench, login: str | None = None, passcode: str | None = None) -> bytes:
    """Return a PLAIN response with the target's own credentials, unless others are given."""
    identity = target.target.identity
    name = identity.login if login is None else login
    word = identity.passcode if passcode is None else passcode
    return f"\0{name or 'anybody'}\0{word or 'anything'}".encode()


def refused(
    target: Bench, peer: AmqpPeer, code: str, ends: str | tuple[str, ...], what: str
) -> None:
    """Judge whether the login fails and the connection ends. A reset may discard the outcome."""
    outcome = peer.watch_for(either(frame("sasl-outcome"), UNREAD))
    if outcome is not None and outcome.name == "sasl-outcome":
        target.record_finding(
            code, outcome.get("code") in (1, 2, 3, 4), f"{what} was answered with {outcome.brief()}"
        )
    else:
        target.record_finding(code, peer.ended is not None, f"after {what}: {peer.instead()}")
    peer.expect_end(within=SOON, proves=ends)


UNREAD = Match[Frame]("bytes that are not a frame", lambda reply: reply.name == UNREADABLE)


@case(SASL_HEADER, SASL_FRAME_TYPE, SASL_FRAME_HEADER, SASL_FRAME_SIZE, SASL_BODY, needs={"amqp"})
def test_sasl_frames_are_as_they_should_be(target: Bench) -> None:
    """A client logs in. The broker answers the SASL header with its own. Its frames have type 1,
    bytes 6 and 7 zero, no extended header, at most 512 bytes, one SASL body each and no payload.

    One scenario: the five requirements are read from the same two frames.
    """
    peer, offer = begun(target, proves=SASL_HEADER)
    fields = {"mechanism": peer.mechanism, "initial-response": plain_response(target)}
    peer.send("sasl-init", fields)
    outcome = peer.expect(frame("sasl-outcome"))
    for sasl_frame in (offer, outcome):
        target.record_finding(
            SASL_FRAME_TYPE,
            sasl_frame.type == SASL_FRAME,
            f"{sasl_frame.name} has the type {sasl_frame.type}",
        )
        target.record_finding(
            SASL_FRAME_HEADER,
            sasl_frame.channel == 0 and not sasl_frame.extended,
            f"{sasl_frame.name} is on channel {sasl_frame.channel} and has an extended header of"
            f" {len(sasl_frame.extended)} bytes",
        )
        target.record_finding(
            SASL_FRAME_SIZE,
            sasl_frame.size <= SMALLEST,
            f"{sasl_frame.name} has {sasl_frame.size} bytes",
        )
        target.record_finding(
            SASL_BODY,
            not sasl_frame.payload,
            f"{sasl_frame.name} is followed by {len(sasl_frame.payload)} bytes",
        )


@case(SASL_MECHANISMS, needs={"amqp"})
def test_mechanisms_are_offered(target: Bench) -> None:
    """The broker names at least one mechanism, each a symbol."""
    _, offer = begun(target)
    names = offer.fields.get("sasl-server-mechanisms")
    listed = names.items if isinstance(names, Array) else (names,)
    types = [name.type if isinstance(name, Value) else None for name in listed]
    if isinstance(names, Array) and not types:
        types = [None]
    target.record_behaviour("amqp.sasl-mechanisms", " ".join(sorted(map(str, mechanisms(offer)))))
    fine = bool(listed) and all(type_name == "symbol" for type_name in types)
    target.record_finding(
        SASL_MECHANISMS, fine and all(mechanisms(offer)), f"the broker offers {offer.brief()}"
    )


@case(SASL_OUTCOME_CODE, HEADERS_AFTER_SASL, needs={"amqp", "login"})
@over(
    examples=6,
    always=lambda target: [{"hostname": None, "ahead": True}],
    hostname=st.sampled_from([None, "localhost"]),
    ahead=st.booleans(),
)
def test_right_credentials_open_the_way(target: Bench, hostname: str | None, ahead: bool) -> None:
    """A client logs in by PLAIN. The outcome is 0, both sides exchange headers again, and the
    connection opens, even if the client sends header and open in one write with the login."""
    peer, offer = begun(target)
    has_plain = "PLAIN" in mechanisms(offer)
    target.control(has_plain, f"the broker offers {shown(mechanisms(offer))}", optional=True)
    fields = {"mechanism": "PLAIN", "initial-response": plain_response(target)}
    with peer.in_one_write():
        peer.send("sasl-init", {**fields, "hostname": hostname})
        if ahead:
            peer.open(answered=False)
    peer.expect(frame("sasl-outcome", code=0), proves=SASL_OUTCOME_CODE)
    if ahead:
        peer.expect(frame(HEADER, id=0), proves=HEADERS_AFTER_SASL)
        peer.expect(frame("open"))
    else:
        peer.open(proves=HEADERS_AFTER_SASL)
    peer.begin()


@case(SASL_OUTCOME_CODE, NO_ADDITIONAL_DATA, SECURITY_LAYER_CLOSES_TCP, needs={"amqp", "login"})
@over(
    examples=12,
    wrong=st.sampled_from(["passcode", "login", "empty", "swapped", "longer", "shorter"]),
)
def test_wrong_credentials_are_refused(target: Bench, wrong: str) -> None:
    """A client logs in by PLAIN with a wrong name or password. The outcome is 1, without
    additional-data, and the connection ends; another connection still works."""
    with bystander(target):
        identity = target.target.identity
        name, word = identity.login or "", identity.passcode or ""
        both = {
            "passcode": (name, word + "x"),
            "login": ("nobody-of-that-name", word),
            "empty": (name, ""),
            "swapped": (word + "-", name),
            "longer": (name, word * 2),
            "shorter": (name, word[:-1]),
        }[wrong]
        peer, offer = begun(target)
        has_plain = "PLAIN" in mechanisms(offer)
        target.control(has_plain, f"the broker offers {shown(mechanisms(offer))}", optional=True)
        peer.send(
            "sasl-init",
            {"mechanism": "PLAIN", "initial-response": f"\0{both[0]}\0{both[1]}".encode()},
        )
        outcome = peer.watch_for(frame("sasl-outcome"))
        observed = reaction(peer, outcome)
        target.record_finding(
            SASL_OUTCOME_CODE,
            outcome is not None and outcome.get("code") == 1,
            f"after a login with a wrong {wrong}: {observed}; expected sasl-outcome with code 1",
        )
        if outcome is not None:
            target.record_finding(
                NO_ADDITIONAL_DATA,
                "additional-data" not in outcome.fields,
                f"the refusal is {outcome.brief()}",
            )
        else:
            target.record_not_applicable(NO_ADDITIONAL_DATA, "no outcome arrived")
        peer.inbox.clear()
        peer.expect_end(within=SOON, proves=SECURITY_LAYER_CLOSES_TCP)


@case(SASL_MECHANISM_REFUSED, SECURITY_LAYER_CLOSES_TCP, needs={"amqp"})
@over(examples=6, name=st.sampled_from([NO_SUCH, "DIGEST-MD5"]))
def test_a_mechanism_that_was_not_offered_is_refused(target: Bench, name: str) -> None:
    """A client picks a mechanism that the broker did not name. Authentication fails and the
    connection ends; another connection still works."""
    with bystander(target):
        peer, offer = begun(target)
        name = name if name not in mechanisms(offer) else NO_SUCH
        peer.send("sasl-init", {"mechanism": name, "initial-response": plain_response(target)})
        refused(
            target,
            peer,
            SASL_MECHANISM_REFUSED,
            SECURITY_LAYER_CLOSES_TCP,
            f"the mechanism {name}, which is not offered,",
        )


@case(OTHER_SPELLING_REFUSED, needs={"amqp"})
@over(examples=4, name=st.sampled_from(["plain", "PLAIN "]))
def test_another_spelling_of_a_mechanism_is_refused(target: Bench, name: str) -> None:
    """A client picks a mechanism by its name in lower case, or with a blank. Authentication fails;
    another connection still works."""
    with bystander(target):
        peer, offer = begun(target)
        peer.send("sasl-init", {"mechanism": name, "initial-response": plain_response(target)})
        outcome = peer.watch_for(either(frame("sasl-outcome"), UNREAD))
        logged_in = outcome is not None and outcome.get("code") == 0
        target.record_finding(
            OTHER_SPELLING_REFUSED,
            not logged_in,
            f"the mechanism {name!r}, where {shown(mechanisms(offer))} is offered,"
            f" was {'accepted' if logged_in else 'refused'}",
        )
        peer.close_socket()


@case(SASL_EMPTY_FRAME, needs={"amqp"})
def test_an_empty_sasl_frame_is_an_error(target: Bench) -> None:
    """An empty SASL frame makes the login fail: the connection ends, or a correct login after that
    frame does not succeed. Another connection still works."""
    with bystander(target):
        peer, offer = begun(target)
        peer.write(codec.encode_frame(b"", type=SASL_FRAME))
        target.wait_until(lambda: peer.ended is not None, SOON)
        if peer.ended is not None:
            ended = f"the broker ended the connection ({peer.ended.how})"
            target.record_held(SASL_EMPTY_FRAME, peer.ended, ended)
        else:
            name = "PLAIN" if "PLAIN" in mechanisms(offer) else "ANONYMOUS"
            peer.send("sasl-init", {"mechanism": name, "initial-response": plain_response(target)})
            outcome = peer.watch_for(either(frame("sasl-outcome"), UNREAD))
            target.record_finding(
                SASL_EMPTY_FRAME,
                outcome is None or outcome.get("code") != 0,
                f"after a login that followed an empty SASL frame: {reaction(peer, outcome)}",
            )
        peer.close_socket()


@case(SASL_BODY, SASL_FRAME_TYPE, NO_SASL_ENDS, needs={"amqp"})
@over(examples=8, what=st.sampled_from(["open", "type", "outcome"]))
def test_what_is_no_sasl_is_refused(target: Bench, what: str) -> None:
    """Instead of sasl-init the client sends an open, a sasl-init in a frame of type 0, or a
    sasl-outcome. This is not a login, and the connection ends; another connection still works."""
    with bystander(target):
        peer, _ = begun(target)
        fields = {"mechanism": "PLAIN", "initial-response": plain_response(target)}
        match what:
            case "open":
                peer.send("open", {"container-id": "brokerproof"})
            case "type":
                peer.send("sasl-init", fields, type=0)
            case _:
                peer.send("sasl-outcome", {"code": 0})
        ended = target.wait_until(
            lambda: peer.ended is not None or bool(peer.take(frame("sasl-outcome", code=0))), 10**10
        )
        detail = f"after {what} instead of sasl-init: {peer.instead()}"
        admitted = ended and peer.ended is None
        judged = SASL_FRAME_TYPE if what == "type" else SASL_BODY
        target.record_finding(judged, not admitted, detail)
        target.record_finding(NO_SASL_ENDS, peer.ended is not None, detail)
