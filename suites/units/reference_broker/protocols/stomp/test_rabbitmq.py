"""RabbitMQ's STOMP heartbeats in the reference: whole seconds, and the second look in a row that
finds nothing."""

import pytest

from brokerproof.harness.model.broker_io import BytesReceived
from brokerproof.harness.model.time import ms, seconds
from brokerproof.harness.oracles.rabbitmq_heartbeats import Rules, agreed
from brokerproof.reference_broker.families.rabbitmq.missed_checks import TwoMissedChecks
from brokerproof.reference_broker.kernel.liveness import NEVER
from brokerproof.reference_broker.protocols.stomp.frame import Version
from brokerproof.reference_broker.protocols.stomp.rabbitmq import RabbitHeartBeats
from brokerproof.reference_broker.protocols.stomp.refusal import Refusal
from brokerproof.reference_broker.settings.acceptor import Acceptor
from brokerproof.reference_broker.settings.settings import Settings
from brokerproof.suites.units.drivers.amqp091 import Driver

RULES = Rules(floor=1000, step=1000, fraction=2, least=2, most=3)


@pytest.mark.parametrize(
    ("asked", "answer", "beat", "ttl"),
    [
        ("1500,2700", "2000,1000", 1000, 1000),
        ("1,1", "1000,1000", 500, 1000),
        ("0,0", "0,0", 0, 0),
        ("2999,0", "0,2000", 0, 2000),
        (None, "0,0", 0, 0),
    ],
)
def test_intervals_are_whole_seconds(asked: str | None, answer: str, beat: int, ttl: int) -> None:
    found = RabbitHeartBeats(Acceptor("stomp"), Settings()).negotiate(asked, Version.V1_2)
    assert (found.header, found.beat_ms, found.ttl_ms) == (answer, beat, ttl)
    if asked is not None:
        promised, wanted = map(int, asked.split(","))
        assert agreed(RULES, promised, wanted) == answer, (
            "the oracle, which shares nothing with the broker, says the same"
        )


def test_what_is_no_number_is_refused() -> None:
    with pytest.raises(Refusal):
        RabbitHeartBeats(Acceptor("stomp"), Settings()).negotiate("1,-1", Version.V1_2)


def watching(every: int) -> TwoMissedChecks:
    monitor = TwoMissedChecks(0, ms(1), 0, 0)
    assert monitor.deadline() == NEVER
    monitor.agreed(seconds(10), ms(every), ms(every))
    return monitor


def test_the_second_look_in_a_row_that_finds_nothing_ends_it() -> None:
    monitor = watching(1000)
    assert monitor.deadline() == seconds(13), "the first look finds the CONNECT"
    monitor.on_bytes_received(seconds(11), b"\n")
    assert monitor.deadline() == seconds(13), "what comes with a look is found by it"
    monitor.on_bytes_received(seconds(11) + 1, b"\n")
    assert monitor.deadline() == seconds(14), "an end of line counts like a frame"


@pytest.mark.parametrize("late", [1, 300, 999, 1000])
def test_silence_lasts_two_to_three_intervals(late: int) -> None:
    monitor = watching(1000)
    monitor.on_bytes_received(seconds(20) + ms(late), b"x")
    least, most = RULES.silence(1999)
    assert least <= monitor.deadline() - seconds(20) - ms(late) < most


@pytest.mark.parametrize("version", ["1.0", "1.1", "1.2"])
@pytest.mark.parametrize(
    ("host", "answer"), [(None, "CONNECTED"), ("/", "CONNECTED"), ("localhost", "ERROR")]
)
def test_host_names_the_virtual_host_and_may_be_absent(
    version: str, host: str | None, answer: str
) -> None:
    driver = Driver()
    conn = driver.open("stomp")
    named = "" if host is None else f"host:{host}\n"
    login = "login:guest\npasscode:guest\n"
    frame = f"CONNECT\naccept-version:{version}\n{login}{named}\n\0"
    driver.feed(BytesReceived(conn, frame.encode()))
    assert driver.sent[conn].startswith(answer.encode())
    assert (conn in driver.closed) is (answer == "ERROR")
