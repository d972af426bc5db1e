"""AMQP 0-9-1 and CORE on synthetic recordings: summaries miss nothing that the oracles find, and a
partial recheck gives the same result as a complete one."""

from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from functools import cache
from random import Random
from typing import Any

import pytest

from brokerproof.harness.model.enums import CloseHow
from brokerproof.harness.model.time import ms
from brokerproof.harness.oracles import recorded_anomalies
from brokerproof.harness.trace import events as ev
from brokerproof.harness.trace.facts import (
    Delivered,
    End,
    Fact,
    Sent,
    Subscribed,
    UnreadableConnection,
    Unsubscribed,
)
from brokerproof.reports.judging.amqp import connection_anomalies
from brokerproof.reports.judging.recheck_plan import Ranges, RecheckPlan
from brokerproof.suites.units.drivers import (
    model_recordings,
    model_recordings_amqp091,
    model_recordings_core,
)
from brokerproof.suites.units.reports.judging.test_event_filter import SCOPE, cut, facts_of
from brokerproof.suites.units.reports.judging.test_segment_summary import summed_up, suspicious

SEEDS = 4
Play = Callable[[int, str | None, int], list[ev.Event]]
PLAYS: dict[str, tuple[Play, Sequence[str]]] = {
    "AMQP091": (model_recordings_amqp091.recording, model_recordings_amqp091.FAULTS),
    "CORE": (model_recordings_core.recording, model_recordings.FAULTS),
}
EXPECTED = {
    "AMQP091": {
        "lose": "lost",
        "double": "shared",
        "overtake": "disordered",
        "invent": "phantom",
        "mark": "mismarked",
        "unmark": "unmarked",
        "overrun": "over the prefetch",
        "revive": "revived",
        "mute": "silent",
        "same tag": "over the prefetch",
        "acknowledged twice": "settled twice",
        "unblock": "blocked unasked",
    },
    "CORE": {
        "lose": "lost",
        "double": "shared",
        "overtake": "disordered",
        "invent": "phantom",
        "mark": "mismarked",
        "revive": "revived",
    },
}


def own(events: Sequence[ev.Event], conn: int) -> list[ev.Event]:
    return [event for event in events if event.conn == conn]


def conns_of(events: Sequence[ev.Event]) -> set[int]:
    return {event.conn for event in events if event.conn is not None}


@cache
def plays(name: str) -> list[tuple[str | None, list[ev.Event], list[int]]]:
    """Draw recordings of a protocol, with each fault and without one, and where to cut them."""
    play, faults = PLAYS[name]
    found = []
    for fault in (None, *faults):
        for seed in range(SEEDS):
            random = Random(f"{fault}{seed}")
            found.append((fault, play(seed, fault, 70), sorted(random.sample(range(1, 250), 2))))
    return found


@pytest.mark.parametrize("name", PLAYS)
def test_every_fault_is_found_and_a_broker_that_works_is_not_accused(name: str) -> None:
    found: dict[str | None, Counter[str]] = defaultdict(Counter)
    for fault, events, _ in plays(name):
        found[fault].update(anomaly.kind for anomaly in recorded_anomalies.find_anomalies(events))
        for conn in conns_of(events):
            found[fault].update(
                wrong.kind for wrong, _ in connection_anomalies(own(events, conn), conn)
            )
    assert found[None] == {}
    assert {fault: kind for fault, kind in EXPECTED[name].items() if not found[fault][kind]} == {}


@pytest.mark.parametrize("name", PLAYS)
def test_summaries_miss_nothing_however_the_recording_is_cut(name: str) -> None:
    read_wholly = connections = 0
    for _, events, cuts in plays(name)[::2]:
        merged = summed_up(events, cuts)
        queues, _ = suspicious(merged)
        for anomaly in recorded_anomalies.find_anomalies(events):
            assert anomaly.queue in queues, f"the summaries of messages missed {anomaly}"
        kind = "channels" if name == "AMQP091" else "oracle_judged"
        rechecks = {key[6]: summary.needs_recheck for key, summary in merged[kind].items()}
        assert {key[6] for key in merged["oracle_judged"]} == conns_of(events)
        assert rechecks.keys() == conns_of(events)
        read_wholly += list(rechecks.values()).count(True)
        connections += len(rechecks)
        for conn, rechecked in rechecks.items():
            missed = not rechecked and list(connection_anomalies(own(events, conn), conn))
            assert not missed, f"missed on {conn}"
        assert not any(scope.needs_recheck for scope in merged["scope_protocols"].values())
    # In 0-9-1 few connections must be read again; CORE has no summary.
    assert read_wholly == connections if name == "CORE" else read_wholly < connections / 3


@pytest.mark.parametrize("name", PLAYS)
def test_what_is_chosen_tells_the_same_of_what_is_looked_for(name: str) -> None:
    # If two deliveries have the same tag, an answer may settle either, and the recheck may include
    # only one.
    sound = [(events, cuts) for fault, events, cuts in plays(name) if fault != "same tag"]
    for number, (events, cuts) in enumerate(sound[::2]):
        facts = [
            fact
            for fact in recorded_anomalies.facts(events)
            if not isinstance(fact, UnreadableConnection)
        ]
        messages = [
            fact for fact in facts if isinstance(fact, (Sent, Delivered)) and fact.key.stamped
        ]
        looked_for: dict[Any, list[int]] = defaultdict(list)
        for fact in Random(number).sample(messages, min(len(messages), 4)):
            looked_for[*SCOPE, fact.queue, fact.key.producer].append(fact.key.number)
        again = RecheckPlan(
            numbered={group: at for at, group in enumerate(looked_for)},
            ranges=Ranges.of(
                [(number, number) for number in numbers] for numbers in looked_for.values()
            ),
            connections=frozenset((*SCOPE, conn) for conn in conns_of(events)),
        )

        def matters(fact: Fact, looked_for: dict[Any, list[int]] = looked_for) -> bool:
            if not isinstance(fact, (Sent, Delivered)):
                return True
            if not fact.key.stamped:
                return False
            return fact.key.number in looked_for.get((*SCOPE, fact.queue, fact.key.producer), ())

        def stamped(fact: Fact) -> bool:
            return not isinstance(fact, (Sent, Delivered)) or fact.key.stamped

        told = filter(stamped, facts_of(again, cut(events, cuts)))
        assert sorted(map(repr, told)) == sorted(map(repr, filter(matters, facts)))


def spoken(*frames: tuple[str, bool, str, dict[str, str], bytes]) -> list[ev.Event]:
    """Frames (protocol, whether sent, name, headers, body) of connection 1, a millisecond apart."""
    events: list[ev.Event] = [
        ev.ConnectionOpened(at_ns=0, conn=1, protocol=frames[0][0], acceptor="x")
    ]
    for at, (protocol, out, name, headers, body) in enumerate(frames):
        kind = ev.FrameSent if out else ev.FrameReceived
        about = {
            "protocol": protocol,
            "command": name,
            "headers": tuple({"channel": "1", **headers}.items()),
        }
        events.append(
            kind(at_ns=ms(1 + at), conn=1, **about, body=body, body_size=len(body), size=60)
        )
    return events


def old(
    out: bool, name: str, body: bytes = b"", **fields: str
) -> tuple[str, bool, str, dict[str, str], bytes]:
    return (
        "AMQP091",
        out,
        name,
        {field.replace("_", "-"): value for field, value in fields.items()},
        body,
    )


def consumed(prefetch: int, *steps: int, multiple: bool = False, **more: str) -> list[ev.Event]:
    """A consumer: positive steps are deliveries of that tag, negative ones acknowledgements."""
    answer = {"multiple": "true" if multiple else "false"}
    begin = [
        old(True, "channel.open"),
        old(True, "basic.qos", prefetch_count=str(prefetch)),
        old(True, "basic.consume", queue="q", consumer_tag="c", **more),
        old(False, "basic.consume-ok", consumer_tag="c"),
    ]
    about = {"consumer_tag": "c", "exchange": "", "routing_key": "q"}
    for step in steps:
        if step > 0:
            begin.append(old(False, "basic.deliver", b"x", delivery_tag=str(step), **about))
        else:
            begin.append(old(True, "basic.ack", delivery_tag=str(-step), **answer))
    return spoken(*begin)


def fine(events: list[ev.Event], *cuts: int) -> bool:
    """True if the summary of the only connection requires no recheck."""
    (summary,) = summed_up(events, cuts)["channels"].values()
    clean: bool = not summary.needs_recheck
    return clean


@pytest.mark.parametrize("cuts", [(), (7,), (6, 9, 11), (5, 6, 7, 8, 9, 10, 11, 12)])
def test_of_a_consumer_that_keeps_its_prefetch_nothing_is_read_again(cuts: tuple[int, ...]) -> None:
    steps = (1, 2, -1, 3, -2, -3, 4, 5, -4)
    assert fine(consumed(2, *steps), *cuts)
    assert not fine(consumed(1, *steps), *cuts)
    assert fine(consumed(0, *steps), *cuts)
    assert fine(consumed(3, 1, 2, 3, -2, 4, 5, -5, 6, multiple=True), *cuts)
    assert not fine(consumed(2, 1, 2, 3, -2, 4, 5, -5, 6, multiple=True), *cuts)
    for wrong in (
        (1, 3),
        (1, 1),
        (2, 3),
        (1, -1, -1),
        (1, 2, -2, -1),
        (1, -2),
        (1, 2, -3, 3),
        (-1, 1),
    ):
        assert not fine(consumed(9, *wrong), *cuts)
    assert not fine(consumed(9, 1, -1, no_ack="true"), *cuts)
    assert fine(consumed(9, 1, 2, no_ack="true"), *cuts)
    again = consumed(9, 1, 2, -1)
    assert not fine([*again, *spoken(old(True, "channel.open"))], *cuts)
    assert not fine([*again, *spoken(old(True, "basic.recover"))], *cuts)


def test_the_summary_of_a_channel_has_what_the_next_piece_needs() -> None:
    ((_, group),) = summed_up(consumed(2, 1, 2, -1, 3, -2, -3, 4), [])["channels"].items()
    (tags,) = group.channels.values()
    assert (tags.opened, tags.first, tags.last, tags.answered) == (True, 1, 4, (1, 3))
    assert (tags.individual_answers, tags.up_to) == (3, 0)
    assert (tags.most_waiting, tags.prefetch) == (2, 2)
    assert (group.heartbeat_s, group.blocked, group.understands_blocked) == (0, "", None)
    told = [("b", True), ("bu", True), ("u", False), ("bb", False), ("bub", True)]
    for letters, right in told:
        frames = [
            old(False, f"connection.{'' if letter == 'b' else 'un'}blocked") for letter in letters
        ]
        announced = old(
            True, "connection.start-ok", client_properties="{'connection.blocked': True}"
        )
        for cuts in ([], [2], [3]):
            assert fine(spoken(announced, *frames), *cuts) is right
            assert not fine(
                spoken(old(True, "connection.start-ok", client_properties="{}"), *frames), *cuts
            )


@pytest.mark.parametrize(("silence", "right"), [(2100, True), (2300, False)])
def test_a_promised_beat_that_does_not_come_asks_for_all_of_the_connection(
    silence: int, right: bool
) -> None:
    events = spoken(
        old(True, "connection.tune-ok", heartbeat="2"), old(False, "connection.open-ok")
    )
    later = ev.HeartBeatReceived(
        at_ns=events[-1].at_ns + ms(silence), conn=1, protocol="AMQP091", size=8
    )
    closed = ev.ConnectionClosed(at_ns=later.at_ns, conn=1, how=CloseHow.EOF)
    for last in (later, closed):
        for cuts in ([], [2], [3]):
            assert fine([*events, last], *cuts) is right
        assert bool(list(connection_anomalies([*events, last], 1))) is not right


def test_a_transaction_confirms_with_its_commit_and_takes_back_with_a_rollback() -> None:
    publish = {"exchange": "", "routing_key": "q"}
    events = spoken(
        old(True, "channel.open"),
        old(True, "tx.select"),
        old(True, "basic.publish", b"1", **publish),
        old(True, "tx.commit"),
        old(False, "tx.commit-ok"),
        old(True, "basic.publish", b"2", **publish),
        old(True, "tx.rollback"),
        old(False, "tx.rollback-ok"),
    )
    first, second = (fact for fact in recorded_anomalies.facts(events) if isinstance(fact, Sent))
    assert (first.confirmed, first.withdrawn, first.strange) == (True, False, True)
    assert (second.confirmed, second.withdrawn) == (False, True)


def test_a_message_that_comes_back_is_not_confirmed_and_one_for_a_known_queue_is_routed() -> None:
    publish = {"exchange": "", "routing_key": "q", "mandatory": "true"}
    events = spoken(
        old(True, "channel.open"),
        old(True, "confirm.select"),
        old(True, "basic.publish", b"1", **publish),
        old(False, "basic.return", b"1", exchange="", routing_key="q", reply_code="312"),
        old(False, "basic.ack", delivery_tag="1", multiple="false"),
        old(True, "queue.declare", queue="q"),
        old(False, "queue.declare-ok", queue="q"),
        old(True, "basic.publish", b"2", **{**publish, "mandatory": "false"}),
        old(True, "basic.publish", b"3", exchange="x", routing_key="q"),
        old(False, "basic.nack", delivery_tag="2", multiple="false"),
        old(False, "basic.ack", delivery_tag="0", multiple="true"),
    )
    sends = [fact for fact in recorded_anomalies.facts(events) if isinstance(fact, Sent)]
    assert [(send.queue, send.confirmed, send.routed, send.anycast) for send in sends] == [
        ("q", False, True, True),
        ("q", False, True, True),
        ("/exchange/x/q", True, False, None),
    ]


def test_what_a_dead_letter_queue_gets_was_published_by_nobody() -> None:
    dead = {
        "exchange": "",
        "routing_key": "q",
        "consumer_tag": "c",
        "headers": "{'x-death': [{'count': 1}]}",
    }
    events = spoken(
        old(True, "basic.publish", b"1", exchange="", routing_key="q"),
        old(False, "basic.deliver", b"2", delivery_tag="1", **dead),
        old(False, "basic.deliver", b"1", delivery_tag="2", **{**dead, "headers": "{}"}),
    )
    assert recorded_anomalies.find_anomalies(events) == []
    (got,) = (fact for fact in recorded_anomalies.facts(events) if isinstance(fact, Delivered))
    assert (got.queue, got.subscription, got.end) == ("q", "1:c", End.HELD)
    ((_, book),) = summed_up(events, [])["deliveries"].items()
    assert book.needs_recheck  # bodies without a stamp
    assert facts_of(RecheckPlan(everything=True), cut(events, [2])) == list(
        recorded_anomalies.facts(events)
    )


def test_queues_that_may_let_messages_go_are_told() -> None:
    events = spoken(
        old(True, "queue.declare", queue="plain", arguments="{'x-queue-type': 'classic'}"),
        old(True, "queue.declare", queue="short", arguments="{'x-max-length': 5}"),
        old(True, "queue.declare", queue="mine", exclusive="true", arguments="{}"),
        old(True, "queue.purge", queue="old"),
        old(True, "basic.consume", queue="plain", consumer_tag="c", no_wait="true"),
        old(True, "basic.cancel", consumer_tag="c"),
        old(False, "basic.cancel-ok", consumer_tag="c"),
    )
    facts = list(recorded_anomalies.facts(events))
    assert {fact.queue for fact in facts if isinstance(fact, Subscribed) and fact.selective} == {
        "short",
        "mine",
        "old",
    }
    assert [(fact.queue, fact.noticed) for fact in facts if isinstance(fact, Unsubscribed)] == [
        ("plain", True)
    ]


def test_two_protocols_in_one_recording_are_not_wholly_known() -> None:
    old_ones, new_ones = (
        model_recordings_amqp091.recording(2, None, 40),
        model_recordings.recording(2, None, 40),
    )
    assert recorded_anomalies.readable(old_ones)
    assert recorded_anomalies.readable(new_ones)
    assert not recorded_anomalies.readable([*old_ones, *new_ones])
    (scope,) = summed_up([*old_ones, *new_ones], [30])["scope_protocols"].values()
    assert scope.needs_recheck


def test_core_says_when_a_message_is_confirmed_and_what_is_taken_with_another() -> None:
    def core(
        out: bool, name: str, body: bytes = b"", **fields: str
    ) -> tuple[str, bool, str, dict[str, str], bytes]:
        named = {
            field if field.startswith("_") else field.replace("_", "-"): value
            for field, value in fields.items()
        }
        return "CORE", out, name, named, body

    about = {"address": "a", "consumer": "0"}
    events = spoken(
        core(
            True,
            "create-session",
            session_channel="1",
            auto_commit_sends="true",
            auto_commit_acks="true",
        ),
        core(
            True,
            "create-queue-v2",
            address="a",
            queue="a",
            routing_type="1",
            requires_response="true",
        ),
        core(False, "null-response"),
        core(True, "send", b"1", address="a", cost="60", requires_response="true"),
        core(True, "send", b"2", address="a", cost="60", requires_response="false"),
        core(False, "null-response"),
        core(True, "create-consumer", consumer="0", queue="a"),
        core(False, "receive", b"1", **about, message="5", delivery_count="1"),
        core(False, "receive", b"2", **about, message="6", delivery_count="2"),
        core(False, "receive", b"", **about, message="0", **{"_hornetq.forced.delivery.seq": "0"}),
        core(True, "acknowledge", consumer="0", message="6"),
        core(True, "session-close"),
        core(False, "null-response"),
    )
    facts = list(recorded_anomalies.facts(events))
    sends = sorted((fact for fact in facts if isinstance(fact, Sent)), key=lambda fact: fact.when)
    assert [(send.confirmed, send.anycast) for send in sends] == [(True, True), (False, True)]
    gots = [fact for fact in facts if isinstance(fact, Delivered)]
    assert [(got.marked, got.end, got.anycast) for got in gots] == [
        (False, End.ASKED, True),
        (True, End.ASKED, True),
    ]
    assert [fact.queue for fact in facts if isinstance(fact, Unsubscribed)] == ["a"]
