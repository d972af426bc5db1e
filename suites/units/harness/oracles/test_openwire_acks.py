"""The oracle of OpenWire's ProducerAcks compares acknowledged bytes with sent ones."""

from brokerproof.harness.model.finding import combine
from brokerproof.harness.model.verdicts import Seen
from brokerproof.harness.oracles.openwire_acks import ONLY, TAKEN, acks, producers
from brokerproof.harness.trace.events import Event
from brokerproof.suites.units.drivers import frames


def made(producer: str, window: int, conn: int = 1) -> Event:
    headers = {"producerId": producer, "windowSize": str(window)}
    return frames.sent("ProducerInfo", headers, conn=conn, protocol="OPENWIRE")


def sent(producer: str, cost: int, *, response: bool = False) -> Event:
    headers = frames.dashed({"responseRequired": response, "producerId": producer, "cost": cost})
    return frames.sent("ActiveMQTextMessage", headers, protocol="OPENWIRE")


def acked(producer: str, size: int, conn: int = 1) -> Event:
    headers = {"producerId": producer, "size": str(size)}
    return frames.received("ProducerAck", headers, conn=conn, protocol="OPENWIRE")


def seen(*events: Event) -> dict[str, Seen]:
    return {finding.requirement: finding.seen for finding in combine(acks(events, 1))}


def test_what_adds_up_holds() -> None:
    events = (
        made("a", 10),
        made("b", 0),
        sent("a", 7),
        sent("b", 5),
        acked("a", 7),
        sent("a", 9, response=True),
    )
    assert seen(*events) == {ONLY: Seen.HELD, TAKEN: Seen.HELD}
    found, wrong = producers(events, 1)
    assert (found["a"].most, found["a"].taken, wrong) == (7, 7, [])


def test_several_messages_may_share_an_ack() -> None:
    assert seen(made("a", 10), sent("a", 7), sent("a", 8), acked("a", 15))[TAKEN] is Seen.HELD


def test_what_is_missing_violates() -> None:
    assert seen(made("a", 10), sent("a", 7), sent("a", 8), acked("a", 7)) == {
        ONLY: Seen.HELD,
        TAKEN: Seen.VIOLATED,
    }


def test_what_was_not_sent_yet_violates_also_when_it_is_sent_later() -> None:
    assert seen(made("a", 10), acked("a", 7), sent("a", 7)) == {
        ONLY: Seen.VIOLATED,
        TAKEN: Seen.HELD,
    }


def test_who_has_no_window_and_who_is_not_there_must_not_be_told() -> None:
    assert seen(made("a", 0), sent("a", 7), acked("a", 7))[ONLY] is Seen.VIOLATED
    assert seen(made("a", 9), acked("b", 7))[ONLY] is Seen.VIOLATED
    assert seen(made("a", 9), sent("a", 7, response=True), acked("a", 7))[ONLY] is Seen.VIOLATED


def test_where_nobody_has_a_window_nothing_is_said_of_it() -> None:
    assert seen() == {ONLY: Seen.NEVER_REACHED, TAKEN: Seen.NEVER_REACHED}
    assert seen(made("a", 0), sent("a", 7)) == {ONLY: Seen.HELD, TAKEN: Seen.NEVER_REACHED}


def test_other_connections_do_not_matter() -> None:
    events = (
        made("a", 9),
        made("a", 0, conn=2),
        acked("a", 5, conn=2),
        sent("a", 3),
        acked("a", 3),
    )
    assert seen(*events) == {ONLY: Seen.HELD, TAKEN: Seen.HELD}
