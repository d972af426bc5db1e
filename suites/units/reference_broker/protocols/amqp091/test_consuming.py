"""Large bodies from another protocol, delivered over AMQP 0-9-1, which needs the whole body."""

from dataclasses import replace

import pytest

from brokerproof.reference_broker.config.rabbitmq import rabbitmq_conf
from brokerproof.reference_broker.kernel import large_body
from brokerproof.reference_broker.settings.acceptor import Acceptor
from brokerproof.reference_broker.settings.parameters import with_parameters
from brokerproof.suites.units.drivers.amqp091 import Driver

BODY = b"".join(b"%06d:" % number for number in range(300))
STOMP = with_parameters(Acceptor("large"), stomp_min_large_message_size=100)


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(large_body, "PIECE", 256)


def test_a_0_9_1_consumer_gets_it_whole_and_in_its_place() -> None:
    known = rabbitmq_conf.default()
    settings = replace(known, acceptors=(*known.acceptors, STOMP), security_enabled=False)
    driver = Driver(settings, disk=True)
    conn, stomp = driver.connect(), driver.open(STOMP.name)
    driver.declare(conn, "q")
    driver.write(stomp, b"CONNECT\naccept-version:1.2\nhost:/\n\n\0")
    head = b"SEND\ndestination:q\ndestination-type:ANYCAST\ncontent-length:%d\n\n%b\0"
    for body in (b"before", BODY, b"behind"):
        driver.write(stomp, head % (len(body), body))

    def files() -> list[str]:
        return [name for name in driver.disk.names() if name.startswith("large/")]

    assert len(files()) == 1
    assert driver.bodies(conn, "q") == [b"before", BODY, b"behind"]
    assert files() == []
