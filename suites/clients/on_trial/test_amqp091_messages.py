"""An AMQP 0-9-1 client's channels, and the messages that it publishes and receives on them."""

import pytest

from brokerproof.harness.cases.client_trials import Amqp091Trial
from brokerproof.harness.clients.client_event import event_named
from brokerproof.harness.clients.driver import body_of
from brokerproof.suites.api import Bench, case, listed, seconds, shown
from brokerproof.suites.api.amqp091 import method

TRIAL = {"amqp091-client"}
FRAME_MAX = "AMQP091-TUNE-05"
BODY_SIZE = "AMQP091-CONTENT-06"
ANY_FRAMES = "AMQP091-CONTENT-03"
OWN_CHANNEL = "AMQP091-ACK-04"
ONCE = "AMQP091-ACK-05"
CHANNEL_MAX = "AMQP091-TUNE-08"
OPENED_ONCE = "AMQP091-CHAN-06"
CLOSE_OK = "AMQP091-CLOSE-03"
DISCARDED = "AMQP091-CLOSE-04"
PAUSES = "AMQP091-CHAN-05"
FLOW_OK = "AMQP091-CHAN-07"
BEATS = "AMQP091-HB-07"
CONFIRMS = "RABBITMQ-AMQP091-CONF-04"
CANCELLED = "RABBITMQ-AMQP091-CANCEL-02"
BLOCKED = "RABBITMQ-AMQP091-READING-BLOCK-01"


def connected(target: Bench, heartbeat: int = 0, **limits: int) -> Amqp091Trial:
    trial = target.amqp091_client()
    trial.connect(heartbeat, **limits)
    return trial


def still_works(trial: Amqp091Trial, channel: int = 1) -> None:
    trial.server.deliver(trial.consume("control", channel), b"control")
    trial.driver.expect(event_named("message", body="control"))


@case(FRAME_MAX, BODY_SIZE, needs=TRIAL)
@pytest.mark.parametrize("size", [0, 1, 4088, 4089, 8176, 50_000])
def test_bodies_are_cut_as_agreed(target: Bench, size: int) -> None:
    """With a frame-max of 4096, the application publishes two bodies. Both arrive whole, in frames
    no larger than that, each after a header with its size."""
    trial = connected(target, frame_max=4096)
    for body in (bytes(position % 251 for position in range(size)), b"next"):
        sent = trial.published(body, proves=BODY_SIZE)
        target.record_finding(
            BODY_SIZE,
            sent.complete and sent.body == body,
            f"{len(sent.body)} of {len(body)} bytes"
            f" arrived{'' if sent.body == body else ', not as they were sent'}; complete:"
            f" {sent.complete}",
        )
        largest = max(sent.frames)
        target.record_finding(FRAME_MAX, largest <= 4096, f"the largest frame has {largest} bytes")


@case(ANY_FRAMES, needs=TRIAL)
@pytest.mark.parametrize("how", ["small bodies", "single octets", "at once"])
def test_messages_arrive_however_they_are_cut(target: Bench, how: str) -> None:
    """Three messages arrive in bodies of one to twelve bytes, byte by byte, or all in one piece.
    The application gets them whole and in order. Control: a message sent as usual arrives first."""
    trial = connected(target)
    consume, server = trial.consume(), trial.server
    server.deliver(consume, b"control")
    target.control(body_of(trial.message()) == b"control", "the control message has another body")
    bodies = [b"a" * 40, b"", b"c" * 300]
    sizes = [9, 15, 20] if how == "small bodies" else [0, 0, 0]
    pieces = [
        server.delivery_of(consume, body, size) for body, size in zip(bodies, sizes, strict=True)
    ]
    server.write_pieces(b"".join(pieces), 1 if how == "single octets" else 10_000)
    got = [trial.driver.expect(event_named("message"), proves=ANY_FRAMES) for _ in bodies]
    target.record_finding(
        ANY_FRAMES, [body_of(one) for one in got] == bodies, "; ".join(one.brief() for one in got)
    )


@case(OWN_CHANNEL, ONCE, needs=TRIAL)
def test_a_delivery_is_acknowledged_once_where_it_came(target: Bench) -> None:
    """Messages with the same tags arrive on two channels. The application acknowledges the second
    message of the second channel. Only that channel gets an ack, with that tag."""
    trial = connected(target)
    first = trial.consume()
    trial.open_channel(2)
    second = trial.consume("r", channel=2)
    for body, consume in zip((b"1", b"2", b"3", b"4"), (first, first, second, second), strict=True):
        tag = trial.server.deliver(consume, body)
    # A client may serve its channels concurrently, so the messages may arrive in another order.
    got = [trial.driver.expect(event_named("message")) for _ in range(4)]
    (last,) = (one for one in got if body_of(one) == body)
    trial.driver.done("ack", message=last.detail["number"])
    ack = trial.server.received("basic.ack", proves=OWN_CHANNEL)
    target.record_finding(
        OWN_CHANNEL,
        (ack.channel, ack["delivery-tag"], ack["multiple"]) == (second.channel, tag, False),
        f"channel {second.channel}, tag {tag} was acknowledged by {ack.brief()}",
    )
    target.advance(seconds(1))
    more = trial.server.taken("basic.ack", first.channel)
    more += trial.server.taken("basic.ack", second.channel)
    target.record_finding(ONCE, not more, f"more acknowledgements: {len(more)}")


@case(ONCE, needs=TRIAL)
def test_what_needs_no_acknowledgement_gets_none(target: Bench) -> None:
    """The application consumes without acknowledgements, and gets two messages. No ack arrives."""
    trial = connected(target)
    consume = trial.consume(no_ack=True)
    target.control(consume["no-ack"], f"the client asked for acknowledgements: {consume.brief()}")
    for _ in range(2):
        trial.server.deliver(consume, b"m")
        trial.message()
    target.advance(seconds(1))
    acks = trial.server.taken("basic.ack", consume.channel)
    target.record_finding(ONCE, not acks, f"{len(acks)} acknowledgements")


@case(CHANNEL_MAX, OPENED_ONCE, needs=TRIAL)
def test_channels_have_free_numbers_up_to_channel_max(target: Bench) -> None:
    """With a channel-max of 3, the application opens three channels, asks for a fourth, closes one
    and asks again. Every channel has a free number between 1 and 3, and the last channel works."""
    trial = connected(target, channel_max=3)
    opened = [trial.server.methods[-1].channel, *(trial.open_channel(n).channel for n in (2, 3))]
    trial.driver.tried("channel", channel=4)
    beyond = trial.server.watch_for(method("channel.open"), within=seconds(1))
    used = [*opened, *([] if beyond is None else [beyond.channel])]
    target.require(CHANNEL_MAX, max(used) <= 3, f"the channels have the numbers {shown(used)}")
    target.require(OPENED_ONCE, len(set(used)) == len(used), f"the channels are {shown(used)}")
    trial.driver.done("close_channel", channel=2)
    trial.driver.expect(event_named("channel-closed", channel=2))
    again = trial.open_channel(5).channel
    target.record_finding(CHANNEL_MAX, again <= 3, f"the next channel has the number {again}")
    busy = {opened[0], opened[2]}
    detail = f"channel {again} was opened again while {listed(busy)} were open"
    target.record_finding(OPENED_ONCE, again not in busy, detail)
    still_works(trial, 5)


@case(CLOSE_OK, OPENED_ONCE, needs=TRIAL)
def test_a_channel_that_the_server_closes_is_given_up(target: Bench) -> None:
    """The server closes one of two channels. The client sends close-ok, the application learns of
    it, and the other channel and a new one work."""
    trial = connected(target)
    lost = trial.consume()
    trial.open_channel(2)
    closing = {"reply-code": 404, "reply-text": "gone"}
    trial.server.send("channel.close", closing, channel=lost.channel)
    trial.server.received("channel.close-ok", proves=CLOSE_OK)
    trial.driver.expect(event_named("channel-closed", channel=1))
    still_works(trial, 2)
    seen = len(trial.server.methods)
    trial.open_channel(3)
    still_works(trial, 3)
    names = [one.name for one in trial.server.methods[seen:] if one.channel == lost.channel]
    words = f"{shown(names)} arrived on the closed channel"
    target.record_finding(OPENED_ONCE, names[:1] in ([], ["channel.open"]), words)


@case(DISCARDED, needs=TRIAL)
def test_a_closing_channel_hands_out_nothing(target: Bench) -> None:
    """The application closes a channel. A message that arrives after channel.close and before
    close-ok does not reach it. Control: a message before the close does."""
    trial = connected(target)
    consume = trial.consume()
    trial.server.deliver(consume, b"early")
    trial.message()
    trial.server.withheld = {"channel.close"}
    trial.driver.done("close_channel", channel=1)
    close = trial.server.received("channel.close")
    trial.server.deliver(consume, b"late")
    target.advance(seconds(1))
    trial.server.answer(close)
    trial.driver.expect(event_named("channel-closed", channel=1))
    late = trial.driver.reports("message")
    target.record_finding(
        DISCARDED, not late, f"messages handed out after the close: {len(late)}; expected 0"
    )


@case(PAUSES, FLOW_OK, needs=TRIAL)
def test_the_flow_of_content_is_paused_and_resumed(target: Bench) -> None:
    """The server pauses the flow and resumes it; the client answers both with flow-ok. If the
    application publishes during the pause, the client holds the message back or has reported the
    pause.

    One scenario: flow-ok, and the pause that it promises.
    """
    trial = connected(target)
    trial.published(b"control")
    channel = trial.server.methods[-1].channel
    trial.server.send("channel.flow", {"active": False}, channel=channel)
    told = trial.server.watch_for(method("channel.flow-ok"), within=seconds(2))
    left = trial.lost or trial.driver.reports("channel-closed")
    answer = "nothing" if told is None else told.brief()
    target.record_finding(
        FLOW_OK, told is not None, f"after channel.flow, the client sent {answer}"
    )
    if left:
        target.record_not_applicable(PAUSES, "the client left")
        return
    trial.publish(b"paused")
    warned = bool(trial.driver.reports("flow"))
    early = trial.server.watch_for(method("basic.publish"), within=seconds(1))
    if warned and early is not None:
        target.record_not_applicable(PAUSES, "the application was informed but published anyway")
        return
    words = f"while the flow was paused, {'no' if early is None else 'a'} message was published"
    target.require(PAUSES, early is None, words)
    trial.server.send("channel.flow", {"active": True}, channel=channel)
    trial.server.received("basic.publish", proves=PAUSES)


@case(CONFIRMS, needs=TRIAL | {"amqp091-confirms"})
def test_the_application_learns_what_was_confirmed(target: Bench) -> None:
    """Of five messages in confirm mode the server acknowledges the first, refuses the second,
    confirms the third and fourth together, then the fifth. The application learns exactly that."""
    trial = connected(target)
    trial.driver.done("confirm", channel=1)
    channel = trial.server.received("confirm.select").channel
    for _ in range(5):
        trial.published(b"x")
    for name, tag, multiple in (("ack", 1, 0), ("nack", 2, 0), ("ack", 4, 1), ("ack", 5, 0)):
        fields = {"delivery-tag": tag, "multiple": bool(multiple)}
        trial.server.send(f"basic.{name}", fields, channel=channel)
    learned: dict[int, bool] = {}

    def complete() -> bool:
        for told in trial.driver.reports("confirmed"):
            last = told.detail["number"]
            for number in range(1 if told.detail.get("multiple") else last, last + 1):
                learned.setdefault(number, told.detail["ok"])
        return len(learned) == 5

    target.wait_until(complete, seconds(5))
    due = {1: True, 2: False, 3: True, 4: True, 5: True}
    target.record_finding(CONFIRMS, learned == due, f"the application got {shown(learned)}")


@case(CANCELLED, needs=TRIAL | {"amqp091-cancel-notify"})
def test_the_application_learns_that_a_consumer_was_cancelled(target: Bench) -> None:
    """The server cancels one of two consumers of a client that announced the extension. The
    application learns which, and the other consumer gets a message."""
    trial = connected(target)
    answer = next(one for one in trial.server.methods if one.name == "connection.start-ok")
    if not answer["client-properties"].get("capabilities", {}).get("consumer_cancel_notify"):
        target.record_not_applicable(CANCELLED, "the client does not announce the extension")
        return
    gone, stays = trial.consume("gone"), trial.consume("stays")
    fields = {"consumer-tag": trial.server.tag_of(gone), "no-wait": True}
    trial.server.send("basic.cancel", fields, channel=gone.channel)
    trial.driver.expect(event_named("cancelled", queue="gone"), proves=CANCELLED)
    trial.server.deliver(stays, b"control")
    trial.driver.expect(event_named("message", body="control"))


@case(BLOCKED, BEATS, needs=TRIAL | {"amqp091-blocked"})
def test_a_blocked_client_goes_on_beating(target: Bench) -> None:
    """The server blocks a connection for four heartbeat intervals. The application learns of the
    block and of its end, and the client is never silent for longer than an interval.

    One scenario: the reports and the heartbeats belong to one block.
    """
    trial = connected(target, heartbeat=1)
    trial.server.beat_every(seconds(1) // 2, target.now() + seconds(6))
    trial.server.send("connection.blocked", {"reason": "low on memory"})
    since = target.now()
    target.advance(seconds(4))
    trial.judge_signs(BEATS, seconds(1), since)
    trial.server.send("connection.unblocked")
    trial.driver.expect(event_named("blocked"), proves=BLOCKED)
    trial.driver.expect(event_named("unblocked"), proves=BLOCKED)
    still_works(trial)
