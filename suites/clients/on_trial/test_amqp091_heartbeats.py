"""Heartbeats of an AMQP 0-9-1 client: those it sends and those it waits for.

A finding that a client disconnected is certain only if the harness sent something on time, because
its own process may have paused.
"""

from functools import partial

import pytest

from brokerproof.harness.cases.client_trials import Amqp091Trial
from brokerproof.harness.clients.client_event import event_named
from brokerproof.harness.model.time import in_ms
from brokerproof.suites.api import Bench, Duration, case, seconds

TRIAL = {"amqp091-client"}
SENT = "AMQP091-HB-07"
LEAVES = "AMQP091-HB-08"
NO_HANDSHAKE = "AMQP091-HB-09"
ANY_OCTET = "AMQP091-HB-10"
NONE_AGREED = "AMQP091-HB-11"
TWO_INTERVALS = "AMQP091-READING-HB-01"

INTERVAL: Duration = seconds(1)


def still_receives(trial: Amqp091Trial) -> None:
    """Control: the client receives a message on the watched connection."""
    trial.server.deliver(trial.consume("control"), b"control")
    trial.driver.expect(event_named("message", body="control"))


@case(SENT, needs=TRIAL)
@pytest.mark.parametrize("interval", [1, 3])
def test_a_client_with_nothing_to_send_beats(target: Bench, interval: int) -> None:
    """A client with nothing to send for four intervals is never silent for longer than one."""
    trial = target.amqp091_client()
    trial.connect(interval)
    trial.server.beat_every(INTERVAL // 2, target.now() + 5 * seconds(interval))
    since = target.now()
    target.advance(4 * seconds(interval))
    trial.judge_signs(SENT, seconds(interval), since)
    still_receives(trial)


@case(SENT, ANY_OCTET, needs=TRIAL)
def test_a_client_beats_and_stays_while_its_listener_works(target: Bench) -> None:
    """A listener works on a message for five intervals, and the server sends heartbeats four times
    as often as agreed. The client is never silent for longer than an interval, and is still
    connected two intervals later."""
    trial = target.amqp091_client()
    trial.connect(1)
    trial.server.beat_every(INTERVAL // 4, target.now() + 12 * INTERVAL)
    consume = trial.consume()
    trial.driver.done("work", ms=5000)
    trial.server.deliver(consume, b"work")
    trial.message()
    since = target.now()
    trial.driver.watch_for(event_named("worked"))
    trial.judge_signs(SENT, INTERVAL, since)
    target.advance(2 * INTERVAL)
    trial.judge_stays(ANY_OCTET, INTERVAL, "the server sent four heartbeats per interval")


@case(SENT, ANY_OCTET, needs=TRIAL)
@pytest.mark.parametrize("signs", ["beats", "messages", "bytes"])
def test_any_octet_in_time_keeps_a_client(target: Bench, signs: str) -> None:
    """The server sends a heartbeat every interval or, twice as often, whole messages or one more
    byte of a message that takes sixteen intervals. The client does not disconnect, keeps reading,
    and sends heartbeats while none arrive."""
    trial = target.amqp091_client()
    trial.connect(1)
    consume, server = trial.consume(), trial.server
    until = target.now() + 16 * INTERVAL
    if signs == "beats":
        server.beat_every(INTERVAL, until)
    elif signs == "messages":
        for number in range(32):
            due = target.now() + number * INTERVAL // 2
            target.world.at(due, partial(server.write_if_open, server.delivery_of(consume, b"m")))
    else:
        slow = server.delivery_of(consume, b"x" * 64)
        server.write(slow[:-40])
        server.drip_every(INTERVAL // 2, slow[-40:-8])
    since = target.now()
    target.wait_until(lambda: trial.lost, 16 * INTERVAL)
    if not trial.lost:
        trial.judge_signs(SENT, INTERVAL, since)
    trial.judge_stays(ANY_OCTET, INTERVAL + INTERVAL // 10, f"{signs} arrived in every interval")


@case(NONE_AGREED, needs=TRIAL)
def test_no_heart_beats_were_agreed(target: Bench) -> None:
    """Neither side wants heartbeats, and the server is silent for eight seconds. Meanwhile the
    client sends nothing and does not disconnect; then it gets a message."""
    trial = target.amqp091_client()
    agreed = trial.connect(0)
    target.control(agreed["heartbeat"] == 0, f"tune-ok says {agreed['heartbeat']} s")
    since = target.now()
    target.wait_until(lambda: trial.lost, seconds(8))
    signs = len(trial.signs_since(since)) - 1
    detail = f"the client wrote {signs} times and {'left' if trial.lost else 'stayed'}"
    target.require(NONE_AGREED, not trial.lost and not signs, detail)
    still_receives(trial)


@case(LEAVES, NO_HANDSHAKE, TWO_INTERVALS, needs=TRIAL)
@pytest.mark.parametrize("interval", [1, 8])
@pytest.mark.parametrize("after", ["connected", "message"])
def test_a_client_leaves_a_silent_server(target: Bench, interval: int, after: str) -> None:
    """The server falls silent after open-ok or after a message. The client disconnects without a
    handshake, not before two intervals, and within five intervals plus fifteen seconds.

    One scenario: the requirements describe one end.
    """
    trial = target.amqp091_client()
    trial.connect(interval)
    if after == "message":
        trial.server.deliver(trial.consume(), b"m")
        trial.message()
    since = trial.server.spoke_at
    assert since is not None
    seen = len(trial.server.methods)
    silence = seconds(interval)
    target.wait_until(lambda: trial.server.ended is not None, 5 * silence + seconds(15))
    ended = trial.server.ended
    words = f"the client stayed connected through {in_ms(target.now() - since)} ms of silence"
    target.require(LEAVES, ended is not None, words)
    assert ended is not None
    target.judge_duration(
        TWO_INTERVALS, "silence tolerated", ended.at - since, (2 * silence, None), since
    )
    said = [method.name for method in trial.server.methods[seen:]]
    words = f"before disconnecting, the client sent {', '.join(said) or 'nothing'}"
    target.record_finding(NO_HANDSHAKE, not said, words)
