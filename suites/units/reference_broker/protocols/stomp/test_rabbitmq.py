"""RabbitMQ's STOMP heartbeats in the reference: whole seconds, and a close at the second
consecutive check without input."""

import pytest

from brokerproof.harness.model.broker_io import BytesReceived
from brokerproof.reference_broker.protocols.stomp.frame import Version
from brokerproof.reference_broker.protocols.stomp.rabbitmq import RabbitHeartBeats
from brokerproof.reference_broker.protocols.stomp.refusal import Refusal
from brokerproof.reference_broker.settings.acceptor import Acceptor
from brokerproof.reference_broker.settings.settings import Settings
from brokerproof.suites.units.drivers.amqp091 import Driver


def test_what_is_no_number_is_refused() -> None:
    with pytest.raises(Refusal):
        RabbitHeartBeats(Acceptor("stomp"), Settings()).negotiate("1,-1", Version.V1_2)


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
