"""Pages: written, read, and removed; order across everything; selectors, browsers, limits."""

from dataclasses import replace

import pytest

from brokerproof.harness.model.broker_io import WritePaused, WriteResumed
from brokerproof.harness.model.enums import FullPolicy
from brokerproof.reference_broker.settings.settings import Settings
from brokerproof.suites.units.drivers.persistence import StoringDriver, numbered, paging

BODY = "x" * 500


def _bodies(count: int, start: int = 0) -> list[str]:
    return [f"{number:05d}{BODY}" for number in range(start, start + count)]


def _acks(frames: list) -> str:  # type: ignore[type-arg]
    return "".join(f"ACK\nid:{frame['ack']}\n\n\0" for frame in frames)


def _pages(driver: StoringDriver) -> list[str]:
    return [name for name in driver.disk.names() if name.startswith("paging/")]


def test_a_page_is_removed_when_everything_before_its_end_is_acknowledged() -> None:
    driver = StoringDriver(paging(max_read_page_bytes=-1))
    producer, consumer = driver.connect(), driver.connect()
    driver.send(producer, *_bodies(60)).settle()
    before = len(_pages(driver))
    got = driver.subscribe(consumer, "client-individual", headers="consumer-window-size:-1\n")
    first, *rest = got
    assert len(got) == 60
    driver.say(consumer, _acks(rest[:-2])).settle()
    assert len(_pages(driver)) < before
    last = [frame for frame in got if frame.body.decode()[:5] == "00059"]
    driver.say(consumer, _acks([first, rest[-2], *last])).settle()
    assert _pages(driver) == []


def test_released_messages_find_their_old_places_before_what_is_on_pages() -> None:
    driver = StoringDriver(paging(max_delivery_attempts=-1, max_read_page_bytes=-1))
    producer = driver.connect()
    driver.send(producer, *_bodies(40)).settle()
    for _ in range(3):
        assert driver.drain() == _bodies(40)


def test_a_selector_reads_through_pages_up_to_what_may_be_read() -> None:
    """ARTEMIS-PAGING-5, ARTEMIS-PAGING-6."""
    driver = StoringDriver(paging(max_read_page_bytes=20_000))
    producer, red = driver.connect(), driver.connect()
    for body in numbered(30):
        driver.send(
            producer, body, headers=f"color:{'red' if body == '20' else 'blue'}\nfill:{BODY}\n"
        )
    driver.settle()
    assert [frame.body for frame in driver.subscribe(red, headers="selector:color='red'\n")] == [
        b"20"
    ]
    far = driver.connect()
    for body in numbered(60):
        driver.send(
            producer,
            f"b{body}",
            to="far",
            headers=f"color:{'red' if body == '59' else 'blue'}\nfill:{BODY}\n",
        )
    driver.settle()
    assert driver.subscribe(far, to="far", headers="selector:color='red'\n") == []
    blue = driver.connect()
    driver.subscribe(blue, to="far", headers="selector:color='blue'\n")
    assert [frame.body for frame in driver.take(far) if frame.command == "MESSAGE"] == [b"b59"]


def test_no_more_is_read_than_max_read_page_messages() -> None:
    driver = StoringDriver(paging(max_read_page_messages=5))
    producer, consumer = driver.connect(), driver.connect()
    driver.send(producer, *_bodies(60)).settle()
    got = driver.subscribe(consumer, "client", headers="consumer-window-size:-1\n")
    in_memory = len(got) - 5
    assert 0 < in_memory < 10
    driver.say(consumer, _acks(got[-1:])).settle()
    more = [frame for frame in driver.take(consumer) if frame.command == "MESSAGE"]
    assert [frame.body.decode() for frame in got + more] == _bodies(len(got) + 5)


def test_of_many_pages_few_are_in_memory() -> None:
    driver = StoringDriver(paging(page_max_cache_size=2), options=None)
    producer = driver.connect()
    driver.send(producer, *_bodies(200), persistent=False).settle()
    store = driver.broker._store.pages.open("q")  # type: ignore[union-attr]
    assert store.files > 40
    assert sum(page.content is not None for page in store.pages.values()) <= 3
    consumer = driver.connect()
    assert [frame.body.decode() for frame in driver.subscribe(consumer)] == _bodies(200)


@pytest.mark.parametrize("policy", [FullPolicy.FAIL, FullPolicy.DROP])
def test_the_limit_of_pages_refuses_or_drops(policy: FullPolicy) -> None:
    driver = StoringDriver(
        paging(page_limit_messages=10, page_full_policy=policy, max_read_page_bytes=-1)
    )
    producer = driver.connect()
    for body in _bodies(40):
        driver.send(producer, body).settle()
    receipts = driver.receipts(producer)
    kept = driver.drain()
    assert 12 < len(kept) < 20, "what fits into memory, and ten on pages"
    assert kept == _bodies(len(kept))
    assert (producer in driver.closed) is (policy is FullPolicy.FAIL)
    assert receipts == (kept if policy is FullPolicy.FAIL else _bodies(40))


def test_an_address_that_comes_and_goes_uses_no_number_of_a_page_again() -> None:
    (setting,) = paging(2000).address_settings
    driver = StoringDriver(Settings(address_settings=(replace(setting, auto_delete_queues=True),)))
    seen: set[str] = set()
    for _ in range(4):
        producer, consumer = driver.connect(), driver.connect()
        driver.send(producer, *_bodies(12)).settle()
        pages = {name for name in driver.disk.names() if name.startswith("paging/")}
        assert pages
        assert not pages & seen
        seen |= pages
        assert len(driver.subscribe(consumer)) == 12
        driver.say(consumer, "DISCONNECT\n\n\0").settle()
        assert "q" not in driver.broker._store.pages._stores  # type: ignore[union-attr]


def test_one_input_reads_a_mebibyte_and_the_rest_comes_a_moment_later() -> None:
    """This way the broker notices a consumer that does not read before everything has been sent to
    it."""
    driver = StoringDriver(paging(2000, page_size=3_000_000, max_read_page_bytes=-1), options=None)
    producer, consumer = driver.connect(), driver.connect()
    bodies = [f"{number:03d}".ljust(100_000, "x") for number in range(40)]
    for body in bodies:
        driver.say(producer, f"SEND\ndestination:q\n\n{body}\0")
    driver.settle()
    got = driver.subscribe(consumer)
    assert 10 <= len(got) <= 12
    driver.feed(WritePaused(consumer))
    driver.wait(1)
    assert driver.take(consumer) == []
    driver.feed(WriteResumed(consumer))
    driver.wait()
    got += [frame for frame in driver.take(consumer) if frame.command == "MESSAGE"]
    assert [frame.body.decode() for frame in got] == bodies


def test_who_sends_faster_than_the_disk_writes_is_not_read_for_a_while() -> None:
    driver = StoringDriver(paging(2000, page_size=3_000_000, max_read_page_bytes=-1))
    driver.settle()
    producer, other = driver.connect(), driver.connect()
    bodies = [f"{number:03d}".ljust(1_000_000, "x") for number in range(12)]
    for body in bodies:
        driver.say(
            producer, f"SEND\ndestination:q\npersistent:true\nreceipt:{body[:3]}\n\n{body}\0"
        )
    assert driver.unread == {producer}
    driver.send(other, "small")
    assert driver.unread == {producer, other}
    driver.settle()
    assert driver.unread == set()
    assert len(driver.receipts(producer)) == 12
    assert driver.drain() == [*bodies, "small"]
