"""A failure's count in its recording, and the silence before it."""

from brokerproof.harness.model.time import ms, seconds
from brokerproof.harness.model.verdicts import Seen
from brokerproof.harness.trace import events as ev
from brokerproof.reports.model.certainty import Sighting, sighting
from brokerproof.suites.units.drivers.recorded_case import recorded_case
from brokerproof.suites.units.drivers.synthetic_run import TTL, connection, silence


def test_examples_that_violated_the_requirement_are_counted() -> None:
    events = [
        event
        for number, closed in enumerate((3, 9, 3, 8))
        for event in silence(
            seconds(closed), example=number, verdict=Seen.VIOLATED if closed > 4 else Seen.HELD
        )
    ]
    assert sighting(recorded_case(events), {TTL}, 96) == Sighting(100, 2, 0)
    assert sighting(recorded_case(events), {"STOMP12-HB-02"}) == Sighting(4, 0, None)


def test_a_case_that_is_no_property_has_no_examples() -> None:
    events = [
        ev.CaseStarted(at_ns=0, detail="silence"),
        *connection(1, "0,0"),
        ev.Judged(at_ns=seconds(10) + ms(2), requirement=TTL, seen="VIOLATED", detail="open"),
    ]
    assert sighting(recorded_case(events), {TTL}) == Sighting(0, 0, seconds(10))
    assert sighting(recorded_case([]), {TTL}) == Sighting(0, 0, None)
