"""Liveness through alarms that overlap and recur (RabbitMQ: flow control; heartbeats).

The server ignores a blocked client's silence until the last alarm is cleared, and measures it anew
from then on. It ignores silence before the alarm too: it closes the connection only after two
heartbeats in a row are missed after the alarm. The server's own heartbeats keep their rhythm
throughout.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from hypothesis import strategies as st

from brokerproof.suites.amqp091.steps import QUIET, bodies, drained, eventually, queue_of
from brokerproof.suites.api import Bench, Duration, Requirements, case, listed, ms, over, seconds
from brokerproof.suites.api.stomp import StompPeer
from brokerproof.suites.flow.test_alarms import BLOCKED, UNBLOCKED
from brokerproof.suites.steps.queue_model import IN_VIRTUAL_TIME
from brokerproof.suites.steps.silence import judge_close
from brokerproof.suites.steps.traces import beats_received

CONNECTION_BLOCKED = "RABBITMQ-FLOW-conn-1"
BLOCKED_ON_MEMORY = "RABBITMQ-FLOW-mem-1"
NOTIFIED = "RABBITMQ-FLOW-notify-1"
SERVER_HEARTBEATS = "AMQP091-HB-02"
GIVEN_UP = "AMQP091-HB-03"
TWO_MISSED = "RABBITMQ-AMQP091-HB-01"
STOMP_GIVEN_UP = "RABBITMQ-STOMP-hb-2"

INTERVAL: Duration = seconds(2)
QUARTER: Duration = INTERVAL // 4
OVERLAP = "the first of two alarms is cleared, and the client is silent for three intervals"
AGAIN = "a client is blocked a second time"
MISSED = "a heartbeat was missed when the client was blocked"
SITUATIONS = (OVERLAP, AGAIN, MISSED)
OTHER = {"memory": "disk", "disk": "memory"}


@dataclass(frozen=True)
class Episode:
    """An alarm that blocks a client. Before it, the client was silent for ``silent`` quarters of an
    interval. ``second``: the other alarm is raised too, and the first is cleared before or after
    it. ``quiet``: quarters of silence under all alarms, and under the last."""

    resource: str
    silent: int
    second: bool
    first_lasts: bool
    quiet: tuple[int, int]


QUARTERS = st.sampled_from([0, 3, 9, 13])
EPISODES = st.lists(
    st.builds(
        Episode,
        st.sampled_from(["memory", "disk"]),
        st.integers(0, 7),
        st.booleans(),
        st.booleans(),
        st.tuples(QUARTERS, QUARTERS),
    ),
    min_size=1,
    max_size=3,
)
ALWAYS = [
    [Episode("memory", 7, True, False, (2, 13)), Episode("disk", 0, True, True, (9, 13))],
    [Episode("disk", 5, False, False, (13, 0)), Episode("disk", 6, False, False, (3, 0))],
    [Episode("memory", 6, False, False, (0, 0))],
]


def blocked_through(
    target: Bench, episode: Episode, publish: Callable[[], None], goes_on: Callable[[str], None]
) -> None:
    """Raise and clear the alarms of an episode. ``goes_on`` judges the blocked client."""
    alarms = [episode.resource]
    if episode.silent >= 5:
        target.reached(MISSED)
    target.advance(episode.silent * QUARTER)
    target.raise_alarm(episode.resource)
    try:
        target.advance(ms(20))
        publish()
        if episode.second:
            alarms.append(OTHER[episode.resource])
            target.raise_alarm(alarms[1])
            target.advance(ms(20))
        target.advance(episode.quiet[0] * QUARTER)
        goes_on(f"with an alarm for {' and '.join(alarms)}")
        if episode.second:
            target.clear_alarm(alarms.pop(1 if episode.first_lasts else 0))
            target.advance(episode.quiet[1] * QUARTER + QUIET)
            if episode.quiet[1] * QUARTER >= 3 * INTERVAL:
                target.reached(OVERLAP)
            goes_on(f"with an alarm for {alarms[0]} alone")
    finally:
        for alarm in alarms:
            target.clear_alarm(alarm)


def note(target: Bench, episodes: Sequence[Episode]) -> None:
    if len(episodes) > 1:
        target.reached(AGAIN)


@case(
    CONNECTION_BLOCKED,
    BLOCKED_ON_MEMORY,
    NOTIFIED,
    SERVER_HEARTBEATS,
    GIVEN_UP,
    TWO_MISSED,
    needs={"alarms", IN_VIRTUAL_TIME},
)
@over(
    examples=8,
    situations=SITUATIONS,
    always=lambda target: [
        {"told": told, "episodes": episodes} for told in (True, False) for episodes in ALWAYS
    ],
    told=st.booleans(),
    episodes=EPISODES,
)
def test_alarms_come_again_and_clients_live(
    target: Bench, told: bool, episodes: list[Episode]
) -> None:
    """A client with heartbeats is blocked by alarms that overlap and recur, and is silent before
    and during them. It stays connected, gets heartbeats on time, or one notification of each block,
    and its messages arrive after the last alarm. If it is silent from then on, it is disconnected
    after two to three intervals. One scenario: the requirements constrain the same events."""
    owner = target.amqp091()
    name = queue_of(owner)
    peer = target.amqp091(
        heartbeat=INTERVAL // seconds(1), capabilities={"connection.blocked": told}
    )
    note(target, episodes)
    began = target.now()

    def goes_on(when: str) -> None:
        target.require(CONNECTION_BLOCKED, peer.ended is None, f"{when}: {peer.instead()}")
        early = told and peer.take(UNBLOCKED) is not None
        detail = f"{when}, connection.unblocked was {'' if early else 'not '}sent"
        target.record_finding(NOTIFIED, not early, detail)
        count = owner.count(name)
        target.require(BLOCKED_ON_MEMORY, count == 0, f"{when}, {count} messages passed")

    for number, episode in enumerate(episodes):
        body = b"%d" % number

        def publish(body: bytes = body) -> None:
            peer.publish(body, name)
            if told:
                peer.expect(BLOCKED, proves=NOTIFIED)

        target.advance(INTERVAL // 2)  # so a check by the broker finds nothing
        peer.beat()
        blocked_through(target, episode, publish, goes_on)
        if told:
            peer.expect(UNBLOCKED, proves=NOTIFIED)
        arrived = eventually(owner, lambda: owner.count(name) == 1)
        got = bodies(drained(owner, name))
        detail = f"after the alarms, {listed(got)} arrived; expected {listed([body])}"
        target.record_finding(BLOCKED_ON_MEMORY, arrived and got == [body], detail)
    if told:
        surplus = peer.take(BLOCKED) or peer.take(UNBLOCKED)
        left = surplus.brief() if surplus else "no other report"
        detail = f"after {len(episodes)} alarms, {left} is left"
        target.record_finding(NOTIFIED, surplus is None, detail)
    since = target.now()
    late = target.punctuality(INTERVAL)
    judge_close(
        target,
        peer,
        (GIVEN_UP, TWO_MISSED, CONNECTION_BLOCKED),
        since,
        (2 * INTERVAL - ms(100), 3 * INTERVAL + late),
        "heartbeats of 2 s, after its alarms",
    )
    if not told:
        beats = [began, *beats_received(target, peer, began)]
        target.judge_period(SERVER_HEARTBEATS, "between two heart-beats", beats, (0, INTERVAL))


@case(CONNECTION_BLOCKED, STOMP_GIVEN_UP, needs={"alarms", IN_VIRTUAL_TIME, "stomp-1.2"})
@over(
    examples=8,
    situations=SITUATIONS,
    always=lambda target: [{"episodes": episodes} for episodes in ALWAYS],
    episodes=EPISODES,
)
def test_alarms_come_again_and_stomp_clients_live(target: Bench, episodes: list[Episode]) -> None:
    """A STOMP client with heartbeats is blocked by alarms that overlap and recur, and is silent
    before and during them. It stays connected. If it is silent after the last alarm, it is
    disconnected after two to three intervals. One scenario: the requirements constrain the same
    events."""
    to = target.destination()
    peer: StompPeer = target.stomp(heart_beat="2000,2000")
    note(target, episodes)
    proves: Requirements = (STOMP_GIVEN_UP, CONNECTION_BLOCKED)

    def goes_on(when: str) -> None:
        target.require(CONNECTION_BLOCKED, peer.ended is None, f"{when}: {peer.instead()}")

    for episode in episodes:
        peer.beat()
        blocked_through(
            target, episode, lambda: peer.publish(to, b"blocked", receipt=False), goes_on
        )
        target.advance(ms(20))
    since = target.now() - ms(20)
    bounds = (2 * INTERVAL - ms(100), 3 * INTERVAL + target.punctuality(INTERVAL))
    judge_close(target, peer, proves, since, bounds, "heart-beats of 2 s, after its alarms")
