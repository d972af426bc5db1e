"""How an AMQP 1.0 client opens a connection, keeps to its limits, and closes it."""

from functools import partial

import pytest

from brokerproof.harness.clients.client_event import event_named
from brokerproof.harness.oracles import amqp_liveness
from brokerproof.harness.protocols.amqp10.scripted_server import MECHANISMS
from brokerproof.suites.api import Bench, case, ms, seconds
from brokerproof.suites.api.amqp10 import SASL_ID, frame
from brokerproof.suites.steps.traces import judge_trace

TRIAL = {"amqp10-client"}
HEADER = "AMQP10-VER-01"
MECHANISM = "AMQP10-SASL-08"
OPEN_FIRST, OPEN_CHANNEL = "AMQP10-OPEN-02", "AMQP10-OPEN-04"
FRAME_SIZE, TOO_LARGE = "AMQP10-MFS-02", "AMQP10-MFS-03"
HANDLES = "AMQP10-CHMAX-04"
TOO_SHORT, OFFSET = "AMQP10-FRAME-02", "AMQP10-FRAME-03"
SILENCE = "AMQP10-IDLE-20"
STAYS, NOTICES = "AMQP10-IDLE-01", "AMQP10-IDLE-03"
CLOSE, CLOSE_LAST = "AMQP10-CLOSE-01", "AMQP10-CLOSE-02"
UNATTACHED = "AMQP10-SESS-05"


@case(HEADER, MECHANISM, OPEN_FIRST, OPEN_CHANNEL, needs=TRIAL)
def test_a_client_begins(target: Bench) -> None:
    """A client that connects and logs in sends a protocol header, picks an offered mechanism, and
    sends open on channel 0 before any other frame.

    One scenario: the first things that a client sends.
    """
    trial = target.amqp10_client()
    opened = trial.connect()
    first, *_ = trial.server.frames
    said = [first.get(name) for name in ("id", "major", "minor", "revision")]
    fine = said in ([0, 1, 0, 0], [SASL_ID, 1, 0, 0])
    target.record_finding(HEADER, fine, f"the client began with {first.brief()}")
    for init in trial.server.named("sasl-init"):
        chosen = init["mechanism"]
        target.record_finding(MECHANISM, chosen in MECHANISMS, f"the client chose {chosen}")
    if first["id"] != SASL_ID:
        target.record_not_applicable(MECHANISM, "the client began without SASL")
    target.record_finding(OPEN_CHANNEL, opened.channel == 0, f"open is on {opened.channel}")
    judge_trace(target, trial.server, amqp_liveness.order)


@case(FRAME_SIZE, needs=TRIAL)
@pytest.mark.parametrize("limit", [512, 4096])
def test_messages_are_cut_as_agreed(target: Bench, limit: int) -> None:
    """The server accepts only small frames. The application sends smaller and larger bodies; they
    arrive whole, in frames within the limit."""
    trial = target.amqp10_client()
    trial.offered["open"] = {"max-frame-size": limit}
    trial.connect()
    link = trial.sender()
    trial.server.flow(link, link_credit=9)
    for size in (0, 1, limit - 100, limit, 20_000):
        body = bytes(97 + position % 26 for position in range(size))
        trial.send(body)
        trial.server.delivery(link, body=body)
    judge_trace(target, trial.server, amqp_liveness.limits)


@case(TOO_LARGE, needs=TRIAL)
def test_a_frame_above_its_limit_ends_the_connection(target: Bench) -> None:
    """A client announces a limit of 4096 bytes; a transfer of 9,000 arrives in one frame. The
    client closes with framing-error. Control: an earlier message arrives."""
    trial = target.amqp10_client()
    opened = trial.connect(max_frame=4096)
    target.control(opened.get("max-frame-size", 9999) < 9000, f"the client sent {opened.brief()}")
    link = trial.receiver()
    trial.server.deliver(link)
    trial.message()
    trial.server.deliver(link, b"x" * 9000)
    target.wait_until(lambda: trial.server.closing is not None, seconds(5))
    error = trial.server.closing_condition
    detail = f"the client closed with {error or 'no error'}; {trial.driver.instead()}"
    target.record_finding(TOO_LARGE, error == "amqp:connection:framing-error", detail)


@case(HANDLES, needs=TRIAL)
def test_links_keep_to_handle_max(target: Bench) -> None:
    """A session has the handles 0 and 1, and the application asks for three links. The first two
    are attached; the third is not, or has a free handle in another session."""
    trial = target.amqp10_client()
    trial.offered["begin"] = {"handle-max": 1}
    trial.connect()
    for number in (1, 2):
        trial.sender(f"out{number}")
    trial.driver.tried("sender", link="out3", address="q", mode="unsettled")
    trial.server.watch_for(frame("attach"), within=seconds(1))
    judge_trace(target, trial.server, amqp_liveness.limits)


def judge_malformed(
    target: Bench, proves: str, size: int | None = None, doff: int | None = None
) -> None:
    """Judge whether the client ends a connection on which it receives a malformed frame. Control:
    an earlier message arrives."""
    trial = target.amqp10_client()
    trial.connect()
    trial.server.deliver(trial.receiver())
    trial.message()
    trial.server.send("begin", {}, channel=9, size=size, doff=doff)
    target.wait_until(lambda: trial.server.closing is not None, seconds(5))
    answer = "closed" if trial.server.closing is not None else "did not close"
    target.record_finding(proves, answer == "closed", f"the client {answer} the connection")


@case(TOO_SHORT, needs=TRIAL)
def test_a_frame_shorter_than_its_header_ends_the_connection(target: Bench) -> None:
    """On a frame with a size of 4 bytes the client closes, or ends the connection."""
    judge_malformed(target, TOO_SHORT, size=4)


@case(OFFSET, needs=TRIAL)
def test_a_data_offset_within_the_header_ends_the_connection(target: Bench) -> None:
    """On a frame with a data offset of 1 word the client closes, or ends the connection."""
    judge_malformed(target, OFFSET, doff=1)


@case(SILENCE, needs=TRIAL)
@pytest.mark.parametrize("busy", [False, True])
@pytest.mark.parametrize("idle", [1000, 3000])
def test_a_client_is_never_silent_for_longer_than_asked(
    target: Bench, idle: int, busy: bool
) -> None:
    """A server announces an idle time-out. For four times that long the client has nothing to send,
    or its listener is working. The client is never silent for longer than the time-out."""
    trial = target.amqp10_client()
    trial.offered["open"] = {"idle-time-out": idle}
    trial.connect()
    link = trial.receiver()
    if busy:
        trial.driver.done("work", ms=4 * idle)
        trial.server.deliver(link)
        trial.message()
    since = target.now()
    target.advance(4 * ms(idle))
    trial.judge_signs(SILENCE, ms(idle), since)


@case(STAYS, needs=TRIAL)
@pytest.mark.parametrize("signs", ["empty frames", "transfers"])
def test_frames_in_time_keep_a_client(target: Bench, signs: str) -> None:
    """A client announces an idle time-out, and the server sends twelve frames at intervals of three
    quarters of it. The client does not disconnect."""
    trial = target.amqp10_client()
    announced = ms(trial.connect(idle_ms=1000).get("idle-time-out", 0))
    target.control(announced > 0, "the client announces no idle time-out")
    link, period = trial.receiver(credit=50), announced * 3 // 4
    if signs == "empty frames":
        trial.server.beat_every(period, target.now() + 12 * announced)
    else:
        for number in range(1, 17):
            due = target.now() + number * period
            target.world.at(due, partial(trial.server.deliver_if_open, link))
    target.wait_until(lambda: trial.lost, 12 * announced)
    trial.judge_stays(STAYS, announced, f"{signs} arrived in every interval")


@case(STAYS, NOTICES, needs=TRIAL)
def test_a_client_closes_a_silent_connection(target: Bench) -> None:
    """A client announces an idle time-out, and the server falls silent. The client closes with an
    error, not before the time-out, and within five time-outs plus five seconds."""
    trial = target.amqp10_client()
    announced = ms(trial.connect(idle_ms=2000).get("idle-time-out", 0))
    target.control(announced > 0, "the client announces no idle time-out")
    trial.receiver()
    trial.server.withheld = {"close"}
    since = trial.server.spoke_at
    assert since is not None
    target.wait_until(lambda: trial.server.closing is not None, 5 * announced + seconds(5))
    at, why = trial.server.closing, trial.server.closing_condition
    told = f"the client {'stayed' if at is None else f'closed with {why}'}"
    target.record_finding(NOTICES, why is not None, told)
    if at is not None:
        target.judge_duration(STAYS, "silence tolerated", at - since, (announced, None), since)


@case(CLOSE, CLOSE_LAST, needs=TRIAL)
@pytest.mark.parametrize("error", [None, "amqp:connection:forced"])
def test_a_close_of_the_server_is_answered(target: Bench, error: str | None) -> None:
    """A server closes the connection, with an error or without, and ends it later. The client sends
    close and nothing after it, and the application learns of the close."""
    trial = target.amqp10_client()
    trial.connect()
    trial.receiver()
    trial.server.withheld = {"close"}
    trial.server.close(answered=False, error=error)
    target.wait_until(lambda: trial.server.closing is not None, seconds(3))
    target.wait_until(lambda: trial.server.ended is not None, seconds(1))
    closes = trial.server.named("close")
    detail = f"close frames in answer to close: {len(closes)}; expected 1"
    target.record_finding(CLOSE, bool(closes), detail)
    if closes:
        judge_trace(target, trial.server, amqp_liveness.order)
    else:
        target.record_not_applicable(CLOSE_LAST, "the client sent no close")
    if trial.server.ended is None:
        trial.server.close_socket()
    trial.driver.expect(event_named("disconnected"))


@case(CLOSE, CLOSE_LAST, needs=TRIAL)
def test_a_client_that_leaves_closes(target: Bench) -> None:
    """The application disconnects while messages arrive. The client sends close and nothing
    more."""
    trial = target.amqp10_client()
    trial.connect()
    link = trial.receiver()
    trial.server.deliver(link)
    trial.message()
    trial.server.withheld = {"close"}
    trial.driver.do("disconnect")
    trial.server.received("close", proves=CLOSE)
    trial.server.deliver(link, b"late")
    trial.server.beat()
    trial.server.send("close")
    target.wait_until(lambda: trial.server.ended is not None, seconds(2))
    judge_trace(target, trial.server, amqp_liveness.order)


@case(UNATTACHED, needs=TRIAL)
def test_a_flow_without_a_link_ends_the_session(target: Bench) -> None:
    """On a flow for a handle without a link the client sends end with unattached-handle. Control:
    an earlier message arrives."""
    trial = target.amqp10_client()
    trial.connect()
    link = trial.receiver()
    trial.server.deliver(link)
    trial.message()
    trial.server.flow(link, handle=77)
    target.wait_until(
        lambda: trial.server.closing is not None or bool(trial.server.named("end")), seconds(5)
    )
    conditions = ", ".join(str(end.condition) for end in trial.server.named("end"))
    target.record_finding(
        UNATTACHED,
        "amqp:session:unattached-handle" in conditions,
        f"after a flow for no link, end had {conditions or 'no error'} and close had"
        f" {trial.server.closing_condition or 'no error'}; {trial.driver.instead()}",
    )
