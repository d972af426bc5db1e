"""The histories of ``persistence/test_store.py`` and ``test_recovery.py`` on an ActiveMQ-like
broker, whose queues may move messages to disk at any moment."""

from dataclasses import replace

import pytest
from hypothesis import settings

from brokerproof.reference_broker.settings.activemq import Cursor
from brokerproof.reference_broker.settings.settings import Settings
from brokerproof.suites.soak.ledger import Key
from brokerproof.suites.units.drivers import activemq
from brokerproof.suites.units.reference_broker.persistence.test_recovery import History, play
from brokerproof.suites.units.reference_broker.persistence.test_store import (
    EXAMPLES,
    PLACES,
    Storing,
)

MESSAGE = 1024 + 4
"""A message has at least this many bytes."""


def of(cursor: Cursor, limit: int, page: int, cache: int = 2, max_page_size: int = 3) -> Settings:
    """Return a queue q with a limit in bytes, whose pages have ``page`` bytes."""
    about = activemq.policy(
        "queue://q",
        memory_limit=limit,
        cursor=cursor,
        max_page_size=max_page_size,
        producer_flow_control=False,
    )
    found = activemq.settings(activemq.configured(about))
    (everything,) = found.address_settings
    return replace(
        found,
        address_settings=(replace(everything, page_size_bytes=page, page_max_cache_size=cache),),
    )


CURSORS = {0: Cursor.STORE, 1500: Cursor.FILE, 4000: Cursor.STORE, -1: Cursor.VM}
"""The cursor under test, by the number of bytes that an address of the Artemis family keeps in
memory."""


class StoringActiveMq(Storing):
    """A broker whose refused messages become dead letters, so the plans refuse none."""

    nacks = False

    def chosen(self, limit: int, page: int, cache: int) -> Settings:
        return of(CURSORS[limit], max(1, limit), page, cache)

    def place(self, address: str, type_header: str) -> str:
        return f"destination:/{'topic' if len(PLACES[address]) > 1 else 'queue'}/{address}\n"

    def window(self, size: int) -> str:
        return f"activemq.prefetchSize:{size // 300 + 1 if size >= 0 else 10_000}\n"


TestStoringActiveMq = StoringActiveMq.TestCase
TestStoringActiveMq.settings = settings(
    max_examples=EXAMPLES // 2, stateful_step_count=25, deadline=None
)


class ActiveMqHistory(History):
    prefix = "/queue/"
    wide = "activemq.prefetchSize:10000\n"


@pytest.mark.parametrize(("cursor", "room"), [(Cursor.STORE, 8), (Cursor.FILE, 1)])
def test_whatever_the_instant(cursor: Cursor, room: int) -> None:
    play(
        ActiveMqHistory(of(cursor, room * MESSAGE, 1500), room),
        room,
        "activemq.prefetchSize:2\n",
        rounds=12,
    )


@pytest.mark.parametrize("cursor", [Cursor.STORE, Cursor.FILE])
def test_memory_is_cleared_in_one_step(cursor: Cursor) -> None:
    """A message moves from the journal to a page: it is never in both, and never in neither."""
    driver = ActiveMqHistory(of(cursor, 8 * MESSAGE, 1500), 0)
    producer = driver.connect()
    for number in range(8):
        key = Key(1, number, 0)
        driver.ledger.sent(["q"], key)
        if number == 1:
            driver.send(producer, "not persistent", persistent=False)
        driver.send(producer, key.body(20).decode()).settle()
        driver.ledger.receipted(["q"], key)
    kept = driver.broker._store.journal.live  # type: ignore[union-attr]
    assert len(kept) == (1 if cursor is Cursor.STORE else 0), (
        "what was behind the one that is not persistent went with it"
    )
    assert driver.looks > 20
    assert driver.drain() == [
        Key(1, 0, 0).body(20).decode(),
        "not persistent",
        *(Key(1, number, 0).body(20).decode() for number in range(1, 8)),
    ]
