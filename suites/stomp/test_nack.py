"""NACK: how it names a message, which messages it refuses in each mode, and their fate.

A server may redeliver a refused message to any client, drop it, or move it to a dead-letter queue.
So these cases never ask where the message went. They require that one NACK treats all its messages
alike and does not affect other messages.
"""

from hypothesis import strategies as st

from brokerproof.suites.api import Bench, CloseHow, case, listed, over
from brokerproof.suites.steps.queues import (
    QUIET,
    expected_remainder,
    held,
    left_in,
    numbered,
    publish_all,
    unsettled_comes_back,
)
from brokerproof.suites.steps.refusals import bystander, refused

NACK_ID = {"1.1": ("STOMP11-NACK-01",), "1.2": ("STOMP12-NACK-01", "STOMP12-FH-06")}
SERVER_CHOICE = {"1.1": "STOMP11-NACK-03", "1.2": "STOMP12-NACK-03"}
HEADER_MISSING = {"1.1": "STOMP11-READING-HEADER-01", "1.2": "STOMP12-READING-HEADER-01"}
KEPT_WITHOUT_ACK = {"1.1": "STOMP11-ACK-05", "1.2": "STOMP12-ACK-04"}
INDIVIDUAL_NACK = {
    "1.1": ("STOMP11-NACK-04", "STOMP11-SUB-11"),
    "1.2": ("STOMP12-NACK-04", "STOMP12-SUB-13"),
}

NOTHING_COMES_BACK = "a message that a lost consumer never settled should reach the next one"

NAMELESS: dict[str, dict[str, tuple[str, ...]]] = {
    "1.1": {"no message-id": ("subscription",)},
    "1.2": {"no id": (), "the headers of 1.1 and no id": ("message-id", "subscription")},
}


@case(NACK_ID, SERVER_CHOICE, needs={"nack"})
def test_a_nack_is_accepted_and_the_message_goes_where_the_server_likes(
    target: Bench, version: str
) -> None:
    """A NACK that names its message as the version requires is confirmed. The message may be
    delivered to the same client, to another, or to none."""
    queue, consumer = target.destination(), target.stomp(version)
    consumer.publish(queue, b"unwanted")
    message = held(target, consumer, queue, 1, "client-individual")[0]
    consumer.request("NACK", consumer.naming(message), proves=NACK_ID[version])
    target.advance(QUIET)
    again = consumer.take_messages()
    consumer.request("UNSUBSCRIBE", {"id": "0"})
    left = left_in(target, queue, version, 1 if again else 0)
    fate = "same-client" if again else "next-client" if left else "no-client"
    target.record_behaviour("stomp.nack", fate)
    detail = f"after a NACK, who got the message again: {fate.replace('-', ' ')}"
    target.record_finding(SERVER_CHOICE[version], consumer.ended is None, detail)


@case(HEADER_MISSING, KEPT_WITHOUT_ACK, needs={"nack"})
def test_a_nack_that_does_not_name_its_message_is_not_confirmed(
    target: Bench, version: str
) -> None:
    """NACK without a header that names its message is not confirmed, and the next consumer gets the
    message. A complete NACK is accepted first."""
    for words, kept in NAMELESS[version].items():
        with bystander(target, version):
            queue, consumer = target.destination(), target.stomp(version)
            consumer.publish(queue, b"refused")
            consumer.nack(held(target, consumer, queue, 1, "client-individual")[0], receipt=True)
            other, victim = target.destination(), target.stomp(version)
            victim.publish(other, b"held")
            message = held(target, victim, other, 1, "client-individual")[0]
            target.record_note(f"NACK with {words}")
            refused(
                target,
                victim,
                "NACK",
                tuple((name, message[name]) for name in kept),
                refuses=HEADER_MISSING[version],
                behaviour="stomp.nack-of-nothing",
            )
            victim.close_socket(CloseHow.RESET)
            left = left_in(target, other, version, 1)
            target.record_finding(
                KEPT_WITHOUT_ACK[version],
                left == [b"held"],
                f"after a NACK with {words} and the loss of the connection, the next consumer got"
                f" {listed(left)}; expected 'held'",
                expectation=expected_remainder([b"held"]),
            )


@case(INDIVIDUAL_NACK, needs={"nack"})
@over(examples=30, count=st.integers(2, 8), which=st.integers(0, 7))
def test_in_mode_client_individual_a_nack_covers_one_message(
    target: Bench, version: str, count: int, which: int
) -> None:
    """In client-individual mode one of several messages is refused. The others stay unsettled: the
    first can be acknowledged, and after a connection loss the next consumer gets the remaining
    ones."""
    which %= count
    queue, consumer = target.destination(), target.stomp(version)
    sent = numbered(count)
    publish_all(target.stomp(version), queue, sent)
    messages = held(target, consumer, queue, count, "client-individual")
    consumer.nack(messages[which], receipt=True)
    first, *others = [number for number in range(count) if number != which]
    consumer.request("ACK", consumer.naming(messages[first]), proves=INDIVIDUAL_NACK[version])
    consumer.close_socket(CloseHow.RESET)
    left = left_in(target, queue, version, count - 2)
    covered_one = {sent[number] for number in others} <= set(left)
    target.control(
        covered_one or unsettled_comes_back(target, version, "client-individual"),
        NOTHING_COMES_BACK,
    )
    target.record_finding(
        INDIVIDUAL_NACK[version],
        covered_one,
        f"number {which} of {count} was refused and number {first} acknowledged; the next consumer"
        f" got {listed(left)}",
    )
