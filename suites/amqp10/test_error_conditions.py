"""Error conditions (2.8.15 to 2.8.18): the standard's own, and others outside its namespace."""

from hypothesis import strategies as st

from brokerproof.harness.oracles import amqp_conditions
from brokerproof.harness.protocols.amqp10 import codec, messages
from brokerproof.suites.amqp10.steps import bystander, ready_sender
from brokerproof.suites.api import Bench, Match, case, over
from brokerproof.suites.api.amqp10 import AmqpPeer, Frame, either, ending
from brokerproof.suites.steps.traces import judge_trace

SHARED_CONDITIONS = "AMQP10-ERR-01"
CONNECTION_CONDITIONS = "AMQP10-ERR-02"
SESSION_CONDITIONS = "AMQP10-ERR-03"
LINK_CONDITIONS = "AMQP10-ERR-04"

OF_CONNECTIONS = ("a size of 4", "no performative", "open twice", "an unknown channel")


def break_connection(peer: AmqpPeer, kind: str) -> None:
    match kind:
        case "a size of 4":
            peer.write(codec.encode_frame(b"", size=4))
        case "no performative":
            peer.write(codec.encode_frame(b"\x40"))
        case "open twice":
            peer.send("open", peer.sent_fields)
        case _:
            peer.send("attach", {"name": "l", "handle": 0, "role": True}, channel=77)


@case(SHARED_CONDITIONS, CONNECTION_CONDITIONS, needs={"amqp"})
@over(
    always=lambda target: [{"kind": kind} for kind in OF_CONNECTIONS],
    examples=4,
    kind=st.sampled_from(OF_CONNECTIONS),
)
def test_errors_of_connections_have_names_of_the_standard(target: Bench, kind: str) -> None:
    """A client provokes a connection error. Its condition is in one of the standard's lists, or
    outside the standard's namespace; another connection still works."""
    with bystander(target):
        peer = target.amqp()
        break_connection(peer, kind)
        if peer.watch_for(ending("close")) is None:
            target.record_not_applicable(CONNECTION_CONDITIONS, "no close had an error")
        judge_trace(target, peer, amqp_conditions.conditions)


@case(SHARED_CONDITIONS, SESSION_CONDITIONS, needs={"amqp"})
@over(
    always=lambda target: [{"handle": 5, "link": False}],
    examples=8,
    handle=st.sampled_from([5, 255]),
    link=st.booleans(),
)
def test_errors_of_sessions_have_names_of_the_standard(
    target: Bench, handle: int, link: bool
) -> None:
    """A flow or a detach names a handle without a link. The session ends with a condition that is
    in one of the standard's lists, or outside its namespace; another connection still works."""
    with bystander(target):
        peer = target.amqp()
        if link:
            peer.send("detach", {"handle": handle, "closed": True})
        else:
            peer.flow(handle=handle, delivery_count=0, link_credit=1)
        answer = peer.watch_for(either(ending("end"), ending("close")))
        if answer is None or answer.name == "close":
            target.record_not_applicable(SESSION_CONDITIONS, "no session ended with an error")
        judge_trace(target, peer, amqp_conditions.conditions)


MUCH = 5000
"""The most credit that a case uses up in reasonable time; some brokers grant tens of thousands."""
OF_LINKS = (
    "a source without address",
    "a tag that is too long",
    "no credit",
    "another message-format",
)


@case(SHARED_CONDITIONS, LINK_CONDITIONS, needs={"amqp"})
@over(
    always=lambda target: [{"kind": kind} for kind in OF_LINKS],
    examples=4,
    kind=st.sampled_from(OF_LINKS),
)
def test_errors_of_links_have_names_of_the_standard(target: Bench, kind: str) -> None:
    """A client provokes a link error. Whatever the broker ends, the condition is in one of the
    standard's lists, or outside its namespace; another connection still works."""
    with bystander(target):
        node = target.node()
        peer = target.amqp()
        if kind == "a source without address":
            source = codec.composite("source", {"capabilities": node.capabilities or None})
            peer.receiver(None, source=source, answered=False)
        else:
            link = ready_sender(target, peer, node)
            payload = messages.message(b"wrong")
            match kind:
                case "a tag that is too long":
                    peer.transfer(link, payload, delivery_tag=bytes(33))
                case "no credit" if link.credit > MUCH:
                    target.record_note(f"{link.credit} credits are too many to use up")
                    peer.transfer(link, payload)
                case "no credit":
                    for _ in range(link.credit + 1):
                        peer.transfer(link, payload)
                case _:
                    peer.transfer(link, payload, message_format=7)
        answered = Match[Frame]("a disposition", lambda reply: reply.name == "disposition")
        answer = peer.watch_for(either(ending("detach"), ending("end"), ending("close"), answered))
        if answer is None or answer.name != "detach":
            target.record_not_applicable(LINK_CONDITIONS, "no link ended with an error")
        if answer is not None and answer.name == "disposition":
            target.record_not_applicable(SHARED_CONDITIONS, f"answered with {answer.brief()}")
        judge_trace(target, peer, amqp_conditions.conditions)
