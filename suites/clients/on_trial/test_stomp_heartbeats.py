"""Heartbeats of a STOMP client: those it sends and those it waits for.

Both sides announce the same intervals here, so these are the agreed ones. A finding that a client
disconnected is certain only if the harness sent something on time: it may have paused.
"""

from functools import partial

import pytest

from brokerproof.harness.cases.client_trials import StompTrial
from brokerproof.harness.clients.client_event import event_named
from brokerproof.harness.protocols.stomp import codec
from brokerproof.harness.protocols.stomp.scripted_server import StompServer
from brokerproof.suites.api import Bench, Duration, case, ms, seconds

TRIAL = {"stomp-client", "heart-beat"}
SENT_IN_TIME = {
    "1.1": ("STOMP11-HB-06", "STOMP11-HB-09"),
    "1.2": ("STOMP12-HB-06", "STOMP12-HB-09"),
}
LINE_END = {"1.1": "STOMP11-HB-10", "1.2": "STOMP12-HB-10"}
NONE_AGREED = {"1.1": "STOMP11-HB-06", "1.2": "STOMP12-HB-06"}
NO_HEADER = {"1.1": "STOMP11-HB-05", "1.2": "STOMP12-HB-05"}
SENT_WHILE_WORKING = {"1.1": "STOMP11-HB-09", "1.2": "STOMP12-HB-09"}
WANTS_NONE = {"1.1": "STOMP11-HB-03", "1.2": "STOMP12-HB-03"}
ANY_DATA = {"1.1": "STOMP11-HB-08", "1.2": "STOMP12-HB-08"}
MARGIN = {"1.1": "STOMP11-HB-12", "1.2": "STOMP12-HB-12"}
MAY_GIVE_UP = {"1.1": "STOMP11-HB-11", "1.2": "STOMP12-HB-11"}

INTERVAL_MS = 600
INTERVAL: Duration = ms(INTERVAL_MS)


def still_receives(target: Bench, trial: StompTrial) -> None:
    """Control: the client still gets messages on the watched connection."""
    subscription = trial.subscribe(id="control", destination="/queue/control")
    trial.server.deliver(subscription, b"control")
    trial.driver.expect(event_named("message", body="control"))


def _deliver_if_open(server: StompServer, subscription: codec.Frame) -> None:
    if server.ended is None:
        server.deliver(subscription)


@case(SENT_IN_TIME, LINE_END, needs=TRIAL)
@pytest.mark.parametrize(("can", "wanted"), [(500, 500), (300, 900), (900, 300)])
def test_a_client_with_nothing_to_send_beats(
    target: Bench, version: str, can: int, wanted: int
) -> None:
    """A client can send heartbeats at one interval, and the server wants them at another. For six
    times the longer interval the client has nothing to send. It sends line ends, and is never
    silent for longer than that interval.

    One scenario: both requirements describe the same heartbeats.
    """
    trial = target.stomp_client(version)
    trial.connect((can, 0), (0, wanted))
    since = target.now()
    interval = ms(max(can, wanted))
    target.advance(6 * interval)
    trial.judge_signs(SENT_IN_TIME[version], interval, since)
    written = b"".join(data for at, data in trial.server.heard if at > since)
    allowed = b"\n" if version == "1.1" else b"\r\n"
    detail = f"the client wrote {written[:40]!r}"
    target.record_finding(LINE_END[version], bool(written) and not written.strip(allowed), detail)


@case(NONE_AGREED, needs=TRIAL)
@pytest.mark.parametrize(("can", "wanted"), [(0, 400), (400, 0)])
def test_no_heart_beats_where_one_side_said_zero(
    target: Bench, version: str, can: int, wanted: int
) -> None:
    """The client or the server announces 0 for the client's heartbeats. The client sends nothing
    for three seconds, and then gets a message."""
    trial = target.stomp_client(version)
    trial.connect((can, 0), (0, wanted))
    since = target.now()
    target.advance(seconds(3))
    signs = len(trial.signs_since(since)) - 1
    still_receives(target, trial)
    target.judge_count(
        NONE_AGREED[version], "heartbeats of the client", signs, (0, 0), "heartbeats"
    )


@case(NO_HEADER, needs=TRIAL)
def test_a_connected_without_heart_beats_agrees_on_none(target: Bench, version: str) -> None:
    """A client that announced heartbeats gets CONNECTED without the header, and counts as
    connected. For three seconds it neither sends heartbeats nor disconnects, and then it gets a
    message."""
    trial = target.stomp_client(version)
    trial.dial((400, 400))
    trial.server.accept(version, None)
    trial.driver.expect(event_named("connected"), proves=NO_HEADER[version])
    since = target.now()
    target.advance(seconds(3))
    signs = len(trial.signs_since(since)) - 1
    detail = f"the client wrote {signs} times and {'left' if trial.lost else 'stayed'}"
    target.require(NO_HEADER[version], not trial.lost and signs == 0, detail)
    still_receives(target, trial)


@case(SENT_WHILE_WORKING, needs=TRIAL)
def test_a_client_beats_while_its_listener_works(target: Bench, version: str) -> None:
    """A listener works on the first of forty messages for five intervals. The client is never
    silent for longer than one interval."""
    trial = target.stomp_client(version)
    trial.connect((INTERVAL_MS, 0), (0, INTERVAL_MS))
    subscription = trial.subscribe()
    trial.driver.done("work", ms=5 * INTERVAL_MS)
    for _ in range(40):
        trial.server.deliver(subscription, b"work")
    trial.message()
    since = target.now()
    trial.driver.expect(event_named("worked"))
    trial.judge_signs(SENT_WHILE_WORKING[version], INTERVAL, since)


@case(ANY_DATA, needs=TRIAL)
def test_a_client_stays_while_its_listener_works(target: Bench, version: str) -> None:
    """A listener works on a message for five intervals, while the server sends a heartbeat four
    times an interval. The client is still connected afterwards, and two intervals later."""
    trial = target.stomp_client(version)
    trial.connect((0, INTERVAL_MS), (INTERVAL_MS, 0))
    trial.server.beat_every(INTERVAL // 4, target.now() + 12 * INTERVAL)
    subscription = trial.subscribe()
    trial.driver.done("work", ms=5 * INTERVAL_MS)
    trial.server.deliver(subscription, b"work")
    trial.message()
    trial.driver.watch_for(event_named("worked"))
    target.advance(2 * INTERVAL)
    trial.judge_stays(ANY_DATA[version], INTERVAL, "the server sent four heartbeats per interval")


@case(ANY_DATA, needs=TRIAL)
@pytest.mark.parametrize("signs", ["beats", "messages", "bytes"])
def test_any_data_in_time_keeps_a_client(target: Bench, version: str, signs: str) -> None:
    """Four times an interval the server sends a heartbeat, a whole message, or one more byte of a
    message that takes eight intervals. The client does not disconnect."""
    trial = target.stomp_client(version)
    trial.connect((0, INTERVAL_MS), (INTERVAL_MS, 0))
    subscription = trial.subscribe()
    server, often = trial.server, INTERVAL // 4
    if signs == "beats":
        server.beat_every(often, target.now() + 8 * INTERVAL)
    elif signs == "messages":
        for number in range(32):
            target.world.at(
                target.now() + number * often, partial(_deliver_if_open, server, subscription)
            )
    else:
        headers = {**server.message_headers(subscription), "content-length": "64"}
        slow = codec.encode("MESSAGE", headers, b"x" * 64, version=version)
        server.write(slow[:-64])
        server.drip_every(often, slow[-64:-32])
    target.wait_until(lambda: trial.lost, 8 * INTERVAL)
    trial.judge_stays(ANY_DATA[version], INTERVAL, f"{signs} arrived four times per interval")


@case(MARGIN, needs=TRIAL)
@pytest.mark.parametrize("after", ["connected", "message"])
def test_a_beat_at_the_end_of_each_interval_is_in_time(
    target: Bench, version: str, after: str
) -> None:
    """The server sends a heartbeat every interval, starting with CONNECTED or with a message. A
    client should allow a margin, so it stays connected for eight intervals."""
    trial = target.stomp_client(version)
    trial.connect((0, INTERVAL_MS), (INTERVAL_MS, 0))
    if after == "message":
        trial.server.deliver(trial.subscribe(), b"m")
    trial.server.beat_every(INTERVAL, target.now() + 9 * INTERVAL)
    target.wait_until(lambda: trial.lost, 8 * INTERVAL)
    trial.judge_stays(MARGIN[version], INTERVAL + INTERVAL // 10, "the server beat every interval")


@case(WANTS_NONE, needs=TRIAL)
def test_a_client_that_wants_no_heart_beats_waits_for_none(target: Bench, version: str) -> None:
    """A client wants no heartbeats, and the server, which could send some, is silent for three
    seconds. The client does not disconnect, and then gets a message."""
    trial = target.stomp_client(version)
    trial.connect((INTERVAL_MS, 0), (INTERVAL_MS, INTERVAL_MS))
    target.wait_until(lambda: trial.lost, seconds(3))
    words = f"the client wants no heartbeats; it {'left' if trial.lost else 'stayed'}"
    target.require(WANTS_NONE[version], not trial.lost, words)
    still_receives(target, trial)


@case(MAY_GIVE_UP, needs=TRIAL)
@pytest.mark.parametrize("after", ["connected", "beats", "message"])
def test_a_client_may_leave_a_silent_server(target: Bench, version: str, after: str) -> None:
    """The server falls silent after CONNECTED, after four heartbeats or after a message. If the
    client disconnects, it does so after one interval at the earliest; the case records the silence
    that it tolerated."""
    trial = target.stomp_client(version)
    trial.connect((0, INTERVAL_MS), (INTERVAL_MS, 0))
    if after == "message":
        trial.server.deliver(trial.subscribe(), b"m")
        trial.message()
    elif after == "beats":
        trial.server.beat_every(INTERVAL // 2, target.now() + 2 * INTERVAL)
        target.advance(2 * INTERVAL)
    since = trial.server.spoke_at
    assert since is not None
    if not target.wait_until(lambda: trial.server.ended is not None, 6 * INTERVAL):
        target.record_not_applicable(
            MAY_GIVE_UP[version], "the client stayed connected for six silent intervals"
        )
        return
    assert trial.server.ended is not None
    target.judge_duration(
        MAY_GIVE_UP[version],
        f"silence tolerated after {after}",
        trial.server.ended.at - since,
        (INTERVAL, None),
        since,
    )
