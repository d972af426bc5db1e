"""Bytes that are not a command: the connection is closed, and all others still work."""

from hypothesis import strategies as st

from brokerproof.harness.protocols.openwire.codec import encode_command, frame
from brokerproof.harness.protocols.openwire.tables import BY_CODE
from brokerproof.suites.api import Bench, case, over
from brokerproof.suites.api.openwire import OpenWirePeer
from brokerproof.suites.openwire.steps import OPENWIRE, QUIET, bystander, fresh_queue

COMMAND_SIZE = "OPENWIRE-CMD-1"
COMMAND_TYPE_UNKNOWN = "OPENWIRE-CMD-2"
MAX_FRAME_SIZE = "OPENWIRE-SIZE-1"
KNOWN_TYPES = frozenset({40, 50, 52, 53, 54, 55, 60, 61, 65, *range(70, 80), 90, 91, 92, *BY_CODE})
"""The numbers of the existing types."""
UNKNOWN_TYPES = [code for code in range(1, 256) if code not in KNOWN_TYPES]


def ends(target: Bench, peer: OpenWirePeer, data: bytes, proves: str) -> None:
    """Send these bytes: the broker must close the connection of ``peer`` without an answer."""
    peer.write(data)
    peer.expect_end(proves=proves)
    answers = [reply.brief() for reply in peer.inbox if reply.name.endswith("Response")]
    words = f"before the end, the broker sent {'; '.join(answers) or 'no response'}"
    target.record_finding(proves, not answers, words)


@case(COMMAND_TYPE_UNKNOWN, needs={OPENWIRE})
@over(
    examples=24,
    always=lambda target: [{"code": 13, "content": bytes(8)}, {"code": 255, "content": b""}],
    code=st.sampled_from(UNKNOWN_TYPES),
    content=st.binary(max_size=40),
)
def test_a_type_that_nobody_knows_ends_it(target: Bench, code: int, content: bytes) -> None:
    """A command of an unknown type closes the connection unanswered; another still works."""
    with bystander(target):
        ends(target, target.openwire(), frame(code, content), COMMAND_TYPE_UNKNOWN)


@case(COMMAND_TYPE_UNKNOWN, needs={OPENWIRE})
@over(examples=6, code=st.sampled_from(UNKNOWN_TYPES))
def test_a_structure_that_nobody_knows_ends_it(target: Bench, code: int) -> None:
    """A SessionInfo whose id is a structure of an unknown type closes the connection without an
    answer; another connection still works."""
    with bystander(target):
        ends(
            target,
            target.openwire(),
            frame(4, bytes(4) + b"\1\1" + bytes((code,)) + b"\1\0\1x" + bytes(8)),
            COMMAND_TYPE_UNKNOWN,
        )


@case(COMMAND_SIZE, needs={OPENWIRE})
@over(
    examples=12,
    always=lambda target: [{"size": -1}, {"size": -(2**31)}],
    size=st.integers(-(2**31), -1),
)
def test_a_negative_size_ends_it(target: Bench, size: int) -> None:
    """A command with a negative size closes the connection unanswered; another still works."""
    with bystander(target):
        ends(target, target.openwire(), frame(10, bytes(5), size=size), COMMAND_SIZE)


@case(COMMAND_SIZE, needs={OPENWIRE})
@over(examples=6, always=lambda target: [{"left": 1}], left=st.integers(1, 200))
def test_a_command_is_waited_for(target: Bench, left: int) -> None:
    """The last bytes of a message are sent later. The broker answers only once they have
    arrived."""
    peer, place = target.openwire(), fresh_queue(target)
    producer = peer.open_producer(place)
    message = peer.message(producer, place, b"x" * 300)
    data = encode_command(
        message.name, {**message.fields, "commandId": 99, "responseRequired": True}
    )
    peer.write(data[:-left])
    peer.expect_nothing(for_=QUIET, proves=COMMAND_SIZE, why="the command is not whole")
    peer.write(data[-left:])
    peer.answered(99, proves=COMMAND_SIZE)


@case(MAX_FRAME_SIZE, needs={OPENWIRE})
@over(
    examples=10,
    always=lambda target: [{"limit": 1000, "above": 0}, {"limit": 1000, "above": 1}],
    limit=st.sampled_from([700, 1000, 65536]),
    above=st.sampled_from([-1, 0, 1, 1000]),
)
def test_a_command_may_be_as_large_as_both_allow(target: Bench, limit: int, above: int) -> None:
    """The client announces a maxFrameSize. A message of exactly that size is answered; a larger one
    closes the connection. Another connection still works."""
    with bystander(target):
        peer, place = target.openwire(MaxFrameSize=limit), fresh_queue(target)
        producer = peer.open_producer(place)
        empty = peer.message(producer, place, b"")
        head = {"commandId": 99, "responseRequired": True}
        least = len(encode_command(empty.name, {**empty.fields, **head})) - 4
        data = encode_command(
            empty.name, {**empty.fields, **head, "content": bytes(limit + above - least)}
        )
        target.control(
            int.from_bytes(data[:4]) == limit + above, f"the message has {len(data) - 4} bytes"
        )
        if above > 0:
            ends(target, peer, data, MAX_FRAME_SIZE)
        else:
            peer.write(data)
            peer.answered(99, proves=MAX_FRAME_SIZE)


@case(COMMAND_SIZE, needs={OPENWIRE})
def test_a_connection_that_breaks_off_concerns_nobody_else(target: Bench) -> None:
    """A client disconnects in the middle of a message. The message is in no queue, and another
    connection still works."""
    with bystander(target) as other:
        peer, place = target.openwire(), fresh_queue(target)
        producer = peer.open_producer(place)
        message = peer.message(producer, place, b"x" * 300)
        peer.write(
            encode_command(
                message.name, {**message.fields, "commandId": 99, "responseRequired": True}
            )[:-50]
        )
        peer.close_socket()
        consumer = other.open_consumer(place, prefetch=10)
        other.expect_nothing(
            for_=QUIET, proves=COMMAND_SIZE, why="only a part of a message was sent"
        )
        other.remove(consumer)
