"""Damage to any file, in any way, on brokers of every profile: nothing is lost, reordered, repeated
or altered without a message that names the file.

A history is played once for each place of messages (journal, pages, large bodies, spool of a
cursor). Then its files are damaged, a broker starts with them, and all queues are read.
"""

import functools
import os
import random
import zlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from brokerproof.harness.model.time import seconds
from brokerproof.reference_broker.persistence.memory import MemoryDisk
from brokerproof.reference_broker.persistence.records import HEAD, OtherFormat
from brokerproof.reference_broker.settings.acceptor import Acceptor
from brokerproof.reference_broker.settings.activemq import Cursor
from brokerproof.reference_broker.settings.parameters import with_parameters
from brokerproof.reference_broker.settings.settings import Settings
from brokerproof.suites.soak import damages
from brokerproof.suites.soak.damages import Damage
from brokerproof.suites.units.drivers.persistence import SMALL, StoringDriver, paging
from brokerproof.suites.units.reference_broker.families.activemq.test_cursor_queue_crashes import of

EXAMPLES = int(os.environ.get("BROKERPROOF_DAMAGE_EXAMPLES", "250"))
"""The number of damages; these take some seconds. ``tox -e soak`` runs many more."""
QUEUES = ("q", "r")
Content = dict[str, list[str]]


class Stomp:
    """A broker with a disk, used over STOMP. ``size`` is the number of bytes of a body."""

    def __init__(self, settings: Settings, size: int = 120, prefix: str = "") -> None:
        self.size = size
        self._driver = StoringDriver(settings, options=SMALL)
        self._driver.prefix = prefix
        if prefix:
            self._driver.wide = "activemq.prefetchSize:10000\n"
        self._driver.settle()

    def play(self) -> Content:
        """Send, commit and acknowledge; return what must remain."""
        driver = self._driver
        producer = driver.connect()
        content: Content = {queue: [] for queue in QUEUES}
        for number in range(26):
            queue = QUEUES[number % 3 % 2]
            body = f"{queue}{number:03d}".ljust(self.size, "x")
            driver.send(producer, body, to=queue)
            content[queue].append(body)
            if number % 4 == 3:
                driver.settle()
        driver.settle()
        bodies = [f"q9{number:02d}".ljust(self.size, "y") for number in range(3)]
        frames = "".join(
            f"SEND\ndestination:{driver.prefix}q\npersistent:true\ntransaction:t\n\n{body}\0"
            for body in bodies
        )
        driver.say(
            producer, f"BEGIN\ntransaction:t\n\n\0{frames}COMMIT\ntransaction:t\nreceipt:t\n\n\0"
        )
        driver.settle()
        content["q"] += bodies
        consumer = driver.connect()
        got = driver.subscribe(consumer, "client-individual", "q", driver.wide)
        driver.wait(seconds(1))
        got += [frame for frame in driver.take(consumer) if frame.command == "MESSAGE"]
        for number in (0, 1, 5, 6, 7):
            driver.say(consumer, f"ACK\nid:{got[number]['ack']}\n\n\0")
            content["q"].remove(got[number].body.decode())
        driver.wait(seconds(1))
        return content

    @property
    def disk(self) -> MemoryDisk:
        return self._driver.disk

    @property
    def reports(self) -> list[str]:
        return self._driver.reports

    def begin(self) -> None:
        self._driver.kill()

    def content(self) -> Content:
        """Return the content of the queues without removing it."""
        return {queue: self._driver.drain(queue) for queue in QUEUES}

    def works(self) -> bool:
        """True if a new message is confirmed and delivered."""
        driver = self._driver
        producer = driver.connect()
        driver.send(producer, "after", to="s").settle()
        return driver.receipts(producer) == ["after"] and driver.drain("s") == ["after"]


def _large(settings: Settings) -> Settings:
    stomp = with_parameters(Acceptor("stomp"), stomp_min_large_message_size=1000)
    return replace(settings, acceptors=(stomp,))


WIDE = {"max_read_page_bytes": -1}
BROKERS: Mapping[str, Callable[[], Stomp]] = {
    "artemis journal": lambda: Stomp(paging(-1)),
    "artemis pages": lambda: Stomp(paging(600, 900, **WIDE)),
    "artemis large": lambda: Stomp(_large(paging(-1)), 20_000),
    "artemis large on pages": lambda: Stomp(_large(paging(600, 900, **WIDE)), 20_000),
    "activemq file cursor": lambda: Stomp(of(Cursor.FILE, 1500, 900), prefix="/queue/"),
    "activemq store cursor": lambda: Stomp(of(Cursor.STORE, 4000, 900), prefix="/queue/"),
}


@dataclass(frozen=True, slots=True)
class Played:
    """The files after a history, and the required content of the queues."""

    files: dict[str, bytes]
    content: Content


@functools.cache
def played(name: str) -> Played:
    broker = BROKERS[name]()
    content = broker.play()
    files = {name: broker.disk.read(name) for name in broker.disk.names()}
    return Played(files, content)


def _put(disk: MemoryDisk, files: Mapping[str, bytes]) -> None:
    for name in set(disk.names()) | set(files):
        disk.put(name, files.get(name))


def check(name: str, damage: Damage) -> None:
    """Start a broker on damaged files, twice, and judge the content of its queues."""
    before = played(name)
    broker = BROKERS[name]()
    _put(broker.disk, damage.on(before.files))
    broker.reports.clear()
    broker.begin()
    content = broker.content()
    _judge(before.content, content, damage, broker.reports)
    assert broker.works()
    broker.begin()
    assert broker.content() == content, f"{damage.sentence}: what is there stays there"


def _judge(expected: Content, content: Content, damage: Damage, reports: Iterable[str]) -> None:
    for queue, bodies in content.items():
        assert len(set(bodies)) == len(bodies), f"{damage.sentence}: {queue} has messages twice"
        for body in bodies:
            assert body[0] == queue, f"{damage.sentence}: {body[:20]} is in {queue}"
            assert len(set(body[4:])) == 1, f"{damage.sentence}: {body[:20]} is altered"
        assert bodies == sorted(bodies), f"{damage.sentence}: {queue} is out of order"
    if content != expected:
        named = [report for report in reports if any(file in report for file in damage.changes)]
        assert named, f"{damage.sentence}: {_difference(expected, content)}, and {list(reports)}"


def _difference(expected: Content, content: Content) -> str:
    return ", ".join(
        f"{queue} has {len(content[queue])} messages of {len(expected[queue])}"
        for queue in QUEUES
        if content[queue] != expected[queue]
    )


@pytest.mark.parametrize("name", BROKERS)
def test_undamaged_files_are_read_without_a_report(name: str) -> None:
    broker = BROKERS[name]()
    _put(broker.disk, played(name).files)
    broker.reports.clear()
    broker.begin()
    assert (broker.content(), broker.reports) == (played(name).content, [])


@given(st.sampled_from(sorted(BROKERS)), st.sampled_from(sorted(damages.ALL)), st.randoms())
@settings(max_examples=EXAMPLES, deadline=None)
def test_no_damage_is_silent(name: str, way: str, dice: random.Random) -> None:
    damage = damages.ALL[way](dice, damages.damageable(played(name).files))
    if damage is not None:
        check(name, damage)


@pytest.mark.parametrize("begin", [0, 2, 6, 10])
@pytest.mark.parametrize("name", BROKERS)
def test_zeros_in_the_head_of_a_file_are_damage(name: str, begin: int) -> None:
    """Zeros replace the record's header, or its end from one of the fields on. The CRC of an empty
    payload is 0, so such a record may look valid."""
    for file, data in played(name).files.items():
        if data:
            zeroed = data[:begin] + bytes(HEAD.size - begin) + data[HEAD.size :]
            check(name, Damage(f"{file}: zeros in its head from byte {begin} on", {file: zeroed}))


@pytest.mark.parametrize("name", BROKERS)
def test_no_end_is_cut_off_silently(name: str) -> None:
    """Each file is cut at the boundaries of its records, and within some of them."""
    dice = random.Random(1)
    for file, data in damages.damageable(played(name).files).items():
        places = damages.boundaries(data)
        for at in {*dice.sample(places, min(6, len(places))), dice.randrange(len(data))}:
            check(name, Damage(f"{file} ends at byte {at} of {len(data)}", {file: data[:at]}))


@pytest.mark.parametrize("name", BROKERS)
def test_no_missing_file_goes_unnoticed(name: str) -> None:
    for file in damages.damageable(played(name).files):
        check(name, Damage(f"{file} is deleted", {file: None}))


def test_files_of_another_format_are_refused() -> None:
    broker = BROKERS["artemis journal"]()
    first = next(name for name in played("artemis journal").files if name.endswith(".journal"))
    head = bytes.fromhex("b7a6 00000000 00000001 00000000")
    crc = zlib.crc32(b"S", 1).to_bytes(4)
    broker.disk.put(first, head[:-4] + crc + b"S")
    with pytest.raises(OtherFormat, match="has format 1, and this broker reads format 2; empty"):
        broker.begin()
