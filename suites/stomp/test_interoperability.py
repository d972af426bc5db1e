"""How clients of other protocols see STOMP messages, as far as STOMP can show it."""

import re

from hypothesis import strategies as st

from brokerproof.suites.api import Bench, case, over, shown
from brokerproof.suites.api.stomp import Destination, StompPeer
from brokerproof.suites.steps.queues import collect

TEXT_OR_BYTES = "ARTEMIS-STOMP-jms-1"
AMQ_MESSAGE_ID = "ARTEMIS-STOMP-id-1"

FIXTURES = {"routing-fixtures"}
"""Our broker.xml has an acceptor ``message-ids`` with stompEnableMessageId=true."""
NUMBERED = "amqMessageId"


def send(peer: StompPeer, to: Destination, body: bytes, *, counted: bool) -> None:
    """Send a SEND with or without a content-length."""
    length = (("content-length", str(len(body))),) if counted else ()
    peer.request("SEND", (("destination", to.name), *to.send_headers, *length), body)


@case(TEXT_OR_BYTES, needs={"text-and-bytes"})
@over(
    examples=30,
    spoken=st.sampled_from(["1.0", "1.1", "1.2"]),
    sends=st.lists(
        st.tuples(
            st.text(
                st.characters(codec="utf-8", exclude_characters="\x00"), min_size=1, max_size=40
            ),
            st.booleans(),
        ),
        min_size=1,
        max_size=6,
    ),
)
def test_content_length_tells_a_client_whether_it_was_text(
    target: Bench, spoken: str, sends: list[tuple[str, bool]]
) -> None:
    """Bodies are sent with a content-length (bytes) or without (text). A 1.0 client gets each
    unchanged, with a content-length if and only if the SEND had one."""
    queue = target.destination()
    producer, consumer = target.stomp(spoken), target.stomp("1.0")
    consumer.subscribe(queue)
    for text, counted in sends:
        send(producer, queue, text.encode(), counted=counted)
    answered = [
        (message.body.decode(), message.get("content-length") is not None)
        for message in collect(target, consumer, len(sends))
    ]
    words = f"sent by {spoken}, with a length or not: {shown(sends)} arrived as {shown(answered)}"
    target.record_finding(TEXT_OR_BYTES, answered == sends, words)


@case(AMQ_MESSAGE_ID, needs=FIXTURES)
@over(
    examples=20,
    spoken=st.sampled_from(["1.0", "1.1", "1.2"]),
    count=st.integers(1, 8),
    forged=st.booleans(),
)
def test_with_message_ids_enabled_each_message_has_one(
    target: Bench, spoken: str, count: int, forged: bool
) -> None:
    """Messages sent through an acceptor with stompEnableMessageId=true arrive with one amqMessageId
    header: STOMP and a unique number, the same for every subscriber."""
    queue = target.destination()
    producer, consumer = target.stomp(spoken, acceptor="message-ids"), target.stomp(spoken)
    for _ in range(count):
        producer.publish(queue, b"m", {NUMBERED: "mine"} if forged else {})
    consumer.subscribe(queue)
    messages = collect(target, consumer, count)
    target.control(len(messages) == count, f"{count} messages were sent; {len(messages)} arrived")
    ids = [[value for name, value in message.headers if name == NUMBERED] for message in messages]
    right = all(
        len(receipt_id) == 1 and re.fullmatch(r"STOMP-?\d+", receipt_id[0]) for receipt_id in ids
    )
    words = f"{count} messages have {NUMBERED} {shown(ids)}; expected one each, STOMP and a number"
    target.record_finding(AMQ_MESSAGE_ID, right, words)
    target.record_finding(
        AMQ_MESSAGE_ID,
        len({str(receipt_id) for receipt_id in ids}) == count,
        f"{count} messages have {NUMBERED} {shown(ids)}",
    )


@case(AMQ_MESSAGE_ID, needs=FIXTURES)
def test_by_default_a_message_has_no_number(target: Bench) -> None:
    """A message sent through an acceptor that does not enable message ids arrives without
    amqMessageId, whichever acceptor delivers it."""
    queue = target.destination()
    producer, consumer = target.stomp("1.2"), target.stomp("1.2", acceptor="message-ids")
    consumer.subscribe(queue)
    producer.publish(queue, b"m")
    message = consumer.message(body=b"m")
    value = message.get(NUMBERED)
    detail = f"the message arrived with {NUMBERED} {shown(value)}"
    target.record_finding(AMQ_MESSAGE_ID, value is None, detail)
