"""Large bodies of another protocol as AMQP 0-9-1 gets them, which needs a body as a whole."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from brokerproof.harness.model.broker_io import (
    BytesReceived,
    Connected,
    Effect,
    FileLoaded,
    FilesStored,
    LoadFile,
    StoreFiles,
)
from brokerproof.reference_broker.assembly import create_broker
from brokerproof.reference_broker.kernel import large_body
from brokerproof.reference_broker.kernel.broker import Broker
from brokerproof.reference_broker.persistence.memory import MemoryDisk
from brokerproof.reference_broker.persistence.store_from_settings import store
from brokerproof.reference_broker.settings.acceptor import Acceptor
from brokerproof.reference_broker.settings.parameters import with_parameters
from brokerproof.reference_broker.settings.settings import Settings
from brokerproof.suites.units.drivers import amqp091

BODY = b"".join(b"%06d:" % number for number in range(300))
STOMP = with_parameters(Acceptor("large"), stomp_min_large_message_size=100)


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(large_body, "PIECE", 256)


class Stored(Broker):
    """A broker whose disk answers at once."""

    def __init__(self, settings: Settings) -> None:
        made = create_broker(settings, store=store(settings))
        super().__init__(made._shared, made._connect, made._store)
        self.disk = MemoryDisk()

    def handle(self, now: int, event: Any) -> list[Effect]:
        done: list[Effect] = []
        asked = super().handle(now, event)
        while asked:
            each = asked.pop(0)
            if isinstance(each, StoreFiles | LoadFile):
                _, answer = self.disk.carry(now, each)
                assert isinstance(answer, FilesStored | FileLoaded)
                asked += super().handle(now, answer)
            else:
                done.append(each)
        return done

    def files(self) -> list[str]:
        return [name for name in self.disk.names() if name.startswith("large/")]

    def stomp(self, *frames: bytes) -> None:
        """Frames on a connection of its own."""
        self.handle(0, Connected(99, STOMP.name, "test"))
        self.handle(0, BytesReceived(99, b"CONNECT\naccept-version:1.2\nhost:/\n\n\0"))
        for frame in frames:
            self.handle(0, BytesReceived(99, frame))


def send(body: bytes, to: bytes = b"q") -> bytes:
    return b"SEND\ndestination:%b\ndestination-type:ANYCAST\ncontent-length:%d\n\n%b\0" % (
        to,
        len(body),
        body,
    )


def test_a_0_9_1_consumer_gets_it_whole_and_in_its_place() -> None:
    driver = amqp091.Driver()
    known = driver.broker._settings
    broker = driver.broker = Stored(
        replace(known, acceptors=(*known.acceptors, STOMP), security_enabled=False)
    )
    conn = driver.connect()
    driver.declare(conn, "q")
    driver.got(conn)
    broker.stomp(send(b"before"), send(BODY), send(b"behind"))
    assert len(broker.files()) == 1
    assert driver.bodies(conn, "q") == [b"before", BODY, b"behind"]
    assert broker.files() == []
