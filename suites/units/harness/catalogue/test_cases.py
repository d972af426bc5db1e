"""Names of cases: names recorded under a former suite still resolve."""

import pytest

from brokerproof.harness.catalogue.cases import CONFORMANCE, SUITE_ALIASES, current_name
from brokerproof.harness.counterexamples.replay import import_home


@pytest.mark.parametrize(
    ("former", "current"),
    [
        ("amqp.links.a_drain_uses_the_credit_up", "amqp10.links.a_drain_uses_the_credit_up"),
        ("amqp.proton.proton_drains", "clients.proton.proton_drains"),
        ("amqp091.pika.pika_is_told_of_errors", "clients.pika.pika_is_told_of_errors"),
        ("amqp091.queues.a_purge_takes_what_waits", "amqp091.queues.a_purge_takes_what_waits"),
        ("crossing.headers.a_time_to_live_crosses", "conversion.headers.a_time_to_live_crosses"),
        (
            "stomp.stomppy.beats_and_messages_share_a_connection",
            "clients.stomppy.beats_and_messages_share_a_connection",
        ),
    ],
)
def test_a_case_recorded_under_a_former_suite_has_its_name_of_today(
    former: str, current: str
) -> None:
    assert current_name(former) == current
    import_home(former)


def test_former_suites_stand_for_suites_of_today() -> None:
    assert set(SUITE_ALIASES.values()) <= set(CONFORMANCE)
    assert not set(SUITE_ALIASES) & set(CONFORMANCE)
