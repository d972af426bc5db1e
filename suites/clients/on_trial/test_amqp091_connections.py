"""How an AMQP 0-9-1 client opens and closes a connection."""

import pytest

from brokerproof.harness.clients.client_event import event_named
from brokerproof.harness.protocols.amqp091.scripted_server import LOCALES, MECHANISMS
from brokerproof.suites.api import Bench, case, seconds

TRIAL = {"amqp091-client"}
HEADER = "AMQP091-VER-04"
CHOSEN = "AMQP091-START-05"
PROPERTIES = "AMQP091-START-06"
LIMITS = "AMQP091-TUNE-07"
CLOSE_OK = "AMQP091-CLOSE-01"
DISCARDED = "AMQP091-CLOSE-02"
NOTHING_BEHIND = "AMQP091-READING-CLOSE-01"
NAMED = ("product", "version", "platform", "information")


@case(HEADER, CHOSEN, PROPERTIES, needs=TRIAL)
def test_a_client_begins(target: Bench) -> None:
    """A connecting client begins with the protocol header, and answers start with a mechanism and a
    locale from the server's lists, and with properties that identify the client.

    One scenario: the first two things that a client sends.
    """
    trial = target.amqp091_client()
    first = trial.dial()
    said = (first["id"], first["major"], first["minor"], first["revision"])
    target.require(HEADER, said == (0, 0, 9, 1), f"the protocol header is AMQP {said}")
    trial.server.propose()
    answer = trial.server.received("connection.start-ok")
    chosen = answer["mechanism"] in MECHANISMS.split() and answer["locale"] in LOCALES.split()
    words = f"start-ok has the mechanism {answer['mechanism']} and the locale {answer['locale']!r}"
    target.record_finding(CHOSEN, chosen, words)
    missing = [name for name in NAMED if not answer["client-properties"].get(name)]
    words = f"missing in client-properties: {', '.join(missing) or 'nothing'}"
    target.record_finding(PROPERTIES, not missing, words)


@case(LIMITS, needs=TRIAL)
@pytest.mark.parametrize("channels", [0, 1, 7, 65535])
@pytest.mark.parametrize("frame", [0, 4096, 131072])
def test_tune_ok_keeps_the_limits_of_the_server(target: Bench, channels: int, frame: int) -> None:
    """A server proposes limits (0 means none). No limit in tune-ok is higher, and frame-max is at
    least 4096. Then the application opens a channel."""
    trial = target.amqp091_client()
    agreed = trial.connect(channel_max=channels, frame_max=frame)
    most, largest = agreed["channel-max"], agreed["frame-max"]
    target.record_finding(
        LIMITS,
        (channels == 0 or 0 < most <= channels)
        and (frame == 0 or 0 < largest <= frame)
        and (largest == 0 or largest >= 4096),
        f"channel-max {channels} and frame-max {frame} were answered with {most} and {largest}",
    )


@case(CLOSE_OK, NOTHING_BEHIND, needs=TRIAL)
def test_a_close_of_the_server_is_answered(target: Bench) -> None:
    """A server sends connection.close to a consuming client, and ends TCP a while later. The client
    sends close-ok, and nothing after it except frames already in flight; the application learns of
    the close."""
    trial = target.amqp091_client()
    trial.connect()
    trial.consume()
    seen = len(trial.server.methods)
    trial.server.send("connection.close", {"reply-code": 320, "reply-text": "maintenance"})
    target.wait_until(lambda: trial.server.ended is not None, seconds(2))
    if trial.server.ended is None:
        trial.server.close_socket()
    trial.driver.expect(event_named("disconnected"))
    answers = [one.name for one in trial.server.methods[seen:]]
    answered = "connection.close-ok" in answers
    words = f"after connection.close, the client sent {', '.join(answers) or 'nothing'}"
    target.record_finding(CLOSE_OK, answered, words)
    if not answered:
        target.record_not_applicable(NOTHING_BEHIND, "the client sent no close-ok")
        return
    behind = answers[answers.index("connection.close-ok") + 1 :]
    words = f"after close-ok, the client sent {', '.join(behind) or 'nothing'}"
    target.record_finding(NOTHING_BEHIND, not behind, words)


@case(DISCARDED, NOTHING_BEHIND, needs=TRIAL)
def test_a_client_that_closes_says_and_hears_no_more(target: Bench) -> None:
    """Once the application has closed its connection, no message that arrives reaches it, and the
    client sends nothing more. Control: a message before the close reaches it."""
    trial = target.amqp091_client()
    trial.connect()
    consume = trial.consume()
    trial.server.deliver(consume, b"early")
    trial.message()
    trial.server.withheld = {"connection.close"}
    trial.driver.do("disconnect")
    close = trial.server.received("connection.close")
    trial.server.deliver(consume, b"late")
    target.wait_until(lambda: trial.server.ended is not None, seconds(1))
    if trial.server.ended is None:
        trial.server.answer(close)
    target.wait_until(lambda: trial.server.ended is not None, seconds(1))
    late = trial.driver.reports("message")
    target.record_finding(
        DISCARDED, not late, f"messages handed out after the close: {len(late)}; expected 0"
    )
    behind = trial.server.methods[trial.server.methods.index(close) + 1 :]
    sent = "; ".join(one.brief() for one in behind) or "nothing"
    words = f"after connection.close, the client sent {sent}"
    target.record_finding(NOTHING_BEHIND, not behind, words)
