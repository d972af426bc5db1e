"""Where messages of a queue wait in ActiveMQ's profile, and their charge there."""

from hypothesis import given, settings
from hypothesis import strategies as st

from brokerproof.reference_broker.families.activemq.usage import Usage
from brokerproof.reference_broker.settings.activemq import Cursor
from brokerproof.suites.units.drivers.activemq import (
    COST,
    SPOOLED,
    account,
    ack,
    broker,
    configured,
    messages,
    policy,
    receipts,
    send,
    subscribe,
    sync,
    used,
)
from brokerproof.suites.units.drivers.broker import Driver, bodies, patient

PERSISTENT = "persistent:true\n"
VM, FILE, STORE = Cursor.VM, Cursor.FILE, Cursor.STORE


def of(cursor: Cursor, limit: int = 10, *, persistent: bool = True, **about: int) -> Driver:
    """Return a queue Q with room for 10 messages in memory, and two connections."""
    return broker(
        configured(
            policy("queue://Q", memory_limit=limit * COST, cursor=cursor, **about),
            persistent=persistent,
        ),
        2,
    )


def added(driver: Driver, count: int, headers: str = "") -> int:
    return len(
        receipts(driver.feed(1, "".join(sync(number, headers=headers) for number in range(count))))
    )


def test_what_the_temporary_store_has_no_room_for_is_dropped() -> None:
    driver = broker(
        configured(policy("queue://Q", memory_limit=10 * COST, cursor=FILE), temp=3 * SPOOLED), 2
    )
    driver.feed(1, "".join(send(str(number)) for number in range(7)))
    assert used(driver)[2] == 3
    assert bodies(driver.feed(2, subscribe(ack="auto")), 2) == ["0", "1", "2"]
    assert used(driver) == (0, 0, 0)


def test_a_slow_consumer_has_a_page_of_messages_in_memory() -> None:
    driver = of(FILE, max_page_size=4)
    added(driver, 9)
    (first,) = messages(driver.feed(2, subscribe(headers="activemq.prefetchSize:1\n")), 2)
    assert used(driver) == (4, 0, 5), "one of a page is with the consumer"
    assert added(driver, 10) == 10
    assert used(driver) == (1 + 3 + 4, 0, 11), "fewer than a page wait: another one is fetched"
    (second,) = messages(driver.feed(2, ack(first)), 2)
    assert used(driver)[0] == 1 + 6, "enough"
    assert second.body == b"m"
    driver.feed(2, "UNSUBSCRIBE\nid:0\n\n\0")
    assert used(driver)[0] == 1 + 6, "what was fetched stays"


def test_nothing_is_left_when_all_is_gone() -> None:
    """Charges are released and nothing is lost or duplicated, whatever the cursor and the order of
    events."""

    @settings(patient, max_examples=60)
    @given(
        st.sampled_from([VM, FILE, STORE]),
        st.lists(
            st.sampled_from(["send", "persistent", "ack", "subscribe", "unsubscribe", "topic"]),
            max_size=40,
        ),
        st.integers(1, 6),
        st.integers(1, 5),
    )
    def property_(cursor: Cursor, steps: list[str], prefetch: int, page: int) -> None:
        entry = policy(
            "queue://Q",
            memory_limit=5 * COST,
            cursor=cursor,
            max_page_size=page,
            producer_flow_control=False,
        )
        driver = broker(configured(entry), 2)
        sent, held, got, subscribed = 0, [], 0, False
        for step in steps:
            effects = []
            if step in ("send", "persistent"):
                effects = driver.feed(1, send(headers=PERSISTENT if step == "persistent" else ""))
                sent += 1
            elif step == "ack" and held:
                effects = driver.feed(2, ack(held.pop(0)))
                got += 1
            elif step == "subscribe" and not subscribed:
                effects = driver.feed(2, subscribe(headers=f"activemq.prefetchSize:{prefetch}\n"))
                subscribed = True
            elif step == "unsubscribe" and subscribed:
                driver.feed(2, "UNSUBSCRIBE\nid:0\n\n\0")
                held, subscribed = [], False
            held += messages(effects, 2)
            there, stored, _ = used(driver)
            lies = account(driver).cursor.on_disk
            assert there + lies.messages <= sent - got
            assert stored <= sent - got
            if cursor is VM:
                assert lies.messages == 0
        driver.gone(2)
        driver.connect(3)
        assert len(messages(driver.feed(3, subscribe(ack="auto")), 3)) == sent - got
        assert (used(driver), account(driver).messages) == ((0, 0, 0), 0)

    property_()


@given(st.lists(st.integers(-50, 100)), st.integers(0, 200), st.integers(0, 300))
def test_a_parent_uses_what_its_children_do(amounts: list[int], limit: int, above: int) -> None:
    parent = Usage(above)
    children = [Usage(limit, parent), Usage(2 * limit, parent)]
    for number, each in enumerate(amounts):
        children[number % 2].add(each)
    assert parent.used == sum(child.used for child in children)
    for child in children:
        own = child.limit > 0 and child.used * 100 // child.limit >= 100
        assert child.full() == (own or (above > 0 and parent.used >= above))
