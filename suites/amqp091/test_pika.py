"""pika, unmodified: what people do with it works."""

from __future__ import annotations

from hypothesis import strategies as st

from brokerproof.harness.cases.bench import Bench
from brokerproof.harness.cases.case import case, over
from brokerproof.harness.clients.callback_events import said
from brokerproof.harness.model.time import seconds
from brokerproof.suites.amqp091.steps import QUIET


@case(
    "AMQP091-VER-01", "AMQP091-CLOSE-01", "AMQP091-PUB-04", "AMQP091-CONTENT-04", needs={"amqp091"}
)
@over(examples=4, count=st.sampled_from([1, 30]), size=st.sampled_from([0, 10, 200_000]))
def test_pika_sends_and_receives(target: Bench, count: int, size: int) -> None:
    """pika connects, declares a queue, publishes, consumes and acknowledges, and closes."""
    begins, closes, order, same = target.cited
    peer = target.pika(proves=begins)
    peer.open_channel(proves=begins)
    queue = peer.declare(exclusive=True, proves=begins)
    sent = [f"{at:03d}" + "x" * size for at in range(count if size < 1000 else 3)]
    for body in sent:
        peer.publish(queue, body.encode())
    peer.consume(queue, proves=order)
    found = []
    for _ in sent:
        message = peer.expect(said("message"), proves=order).detail
        found.append(message["body"])
        peer.ack(message["tag"])
    target.record_finding(
        order,
        [each[:3] for each in found] == [each[:3] for each in sent],
        f"{len(found)} messages came",
    )
    target.record_finding(
        same, found == sent, "the bodies that came should be those that were sent"
    )
    peer.close(proves=closes)


@case("AMQP091-QOS-01", "AMQP091-QOS-02", needs={"amqp091"})
@over(examples=4, prefetch=st.sampled_from([1, 5]), multiple=st.booleans())
def test_pika_has_as_much_as_its_prefetch(target: Bench, prefetch: int, multiple: bool) -> None:
    """pika consumes with a prefetch: it has as many messages, and with each acknowledgement gets
    more."""
    not_more, more = target.cited
    peer = target.pika()
    peer.open_channel()
    queue = peer.declare(exclusive=True)
    for at in range(3 * prefetch):
        peer.publish(queue, b"%d" % at)
    peer.consume(queue, prefetch=prefetch)
    for part in range(3):
        tags = [peer.expect(said("message"), proves=more).detail["tag"] for _ in range(prefetch)]
        peer.expect_nothing(
            for_=QUIET,
            of=said("message"),
            proves=not_more,
            why=f"{prefetch} wait for acknowledgement",
        )
        target.record_finding(more, tags[-1] == (part + 1) * prefetch, f"the tags are {tags}")
        for tag in tags[-1:] if multiple else tags:
            peer.ack(tag, multiple=multiple)


@case("RABBITMQ-AMQP091-CONF-01", "AMQP091-PUB-03", "RABBITMQ-AMQP091-LEN-02", needs={"amqp091"})
def test_pika_gets_confirms_and_returns(target: Bench) -> None:
    """pika publishes with confirms: to a queue, to nowhere but mandatory, and to a queue that is
    full."""
    confirms, returns, refuses = target.cited
    peer = target.pika()
    peer.open_channel(confirms=True)
    full = peer.declare(
        exclusive=True, arguments={"x-max-length": 1, "x-overflow": "reject-publish"}
    )
    peer.publish(full, b"first")
    told = peer.expect(said("confirmed", tag=1), proves=confirms).detail
    target.record_finding(confirms, told["name"] == "ack", f"the first message was told {told}")
    peer.publish(full, b"second")
    told = peer.expect(said("confirmed", tag=2), proves=refuses).detail
    target.record_finding(
        refuses, told["name"] == "nack", f"the message for a full queue was told {told}"
    )
    peer.publish(target.fresh_name(), b"nowhere", mandatory=True)
    peer.expect(said("returned", code=312, body="nowhere"), proves=returns)
    peer.expect(said("confirmed", tag=3), proves=confirms)


@case("AMQP091-QUEUE-02", "AMQP091-CHAN-02", needs={"amqp091"})
def test_pika_is_told_of_errors(target: Bench) -> None:
    """A passive declaration fails: pika's channel is closed with 404, and another one works."""
    missing, goes_on = target.cited
    peer = target.pika()
    peer.open_channel(1)
    peer.open_channel(2)
    peer.channel_of[1].queue_declare(target.fresh_name(), passive=True)
    peer.expect(said("channel-closed", channel=1, code=404), proves=missing)
    queue = peer.declare(exclusive=True, channel=2, proves=goes_on)
    peer.publish(queue, b"on", channel=2)
    peer.consume(queue, channel=2, auto_ack=True, proves=goes_on)
    peer.expect(said("message", body="on"), proves=goes_on)


@case("AMQP091-HB-02", "AMQP091-HB-05", needs={"amqp091"})
def test_pika_and_its_heart_beats(target: Bench) -> None:
    """pika keeps an interval, in which it hears from the server and is heard: the connection stays
    for five of them."""
    heard, stays = target.cited
    interval = 30 if target.virtual else 1
    peer = target.pika(heartbeat=interval)
    peer.open_channel()
    target.advance(seconds(5 * interval))
    target.record_finding(heard, peer.ended is None, f"pika gave up: {peer.instead()}")
    target.record_finding(
        stays, peer.connection.is_open, f"the connection should be open: {peer.instead()}"
    )
    peer.declare(exclusive=True, proves=stays)
