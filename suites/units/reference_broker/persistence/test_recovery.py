"""A broker ends at every point of every batch of a history, and another one reads the files."""

import copy
import random

import pytest

from brokerproof.harness.model.broker_io import StoreFiles
from brokerproof.harness.model.time import NS_PER_MS
from brokerproof.reference_broker.persistence.memory import DiskFaults, MemoryDisk
from brokerproof.reference_broker.persistence.store import StoreOptions
from brokerproof.reference_broker.settings.settings import Settings
from brokerproof.suites.soak.ledger import Key, Ledger
from brokerproof.suites.units.drivers.persistence import StoringDriver, paging

OPTIONS = StoreOptions(journaled=True, segment=150, ballast=0)


def _then(disk: MemoryDisk, effect: StoreFiles) -> list[MemoryDisk]:
    """Yield the disk after each step of ``effect``, including the half-done first write."""
    steps = [StoreFiles(0, effect.writes[:number]) for number in range(len(effect.writes) + 1)]
    steps += [
        StoreFiles(0, effect.writes, effect.removes[: number + 1])
        for number in range(len(effect.removes))
    ]
    after = []
    for step in steps:
        at_that_point = copy.deepcopy(disk)
        at_that_point.carry(0, step)
        after.append(at_that_point)
    return after


class History(StoringDriver):
    """A driver that checks every point at which the process could end."""

    def __init__(self, settings: Settings, seed: int) -> None:
        self.ledger = Ledger()
        self.looks = 0
        super().__init__(settings, OPTIONS, seed, DiskFaults())
        self.looking = True

    looking = False

    def _note(self, effects) -> None:  # type: ignore[no-untyped-def]
        for effect in effects:
            if self.looking and isinstance(effect, StoreFiles):
                for disk in _then(self.disk, effect):
                    self._look(disk)
            super()._note([effect])

    def _look(self, disk: MemoryDisk) -> None:
        self.looks += 1
        later = StoringDriver(self.settings, OPTIONS, faults=DiskFaults(read=NS_PER_MS))
        later.prefix, later.wide = self.prefix, self.wide
        later.disk = disk
        later.kill()
        there = [(Key.of(body.encode()), True) for body in later.drain()]
        ledger = copy.deepcopy(self.ledger)
        ledger.found("q", there)
        assert ledger.wrong == [], f"before ticket {self._order}"


@pytest.mark.parametrize("limit", [-1, 0, 3000])
@pytest.mark.parametrize("seed", range(2))
def test_whatever_the_instant(limit: int, seed: int) -> None:
    play(History(paging(limit, 2000, max_read_page_bytes=-1), seed), seed)


def play(driver: History, seed: int, window: str = History.wide, rounds: int = 20) -> None:
    dice = random.Random(seed)
    driver.looking = False
    producer, consumer = driver.connect(), driver.connect()
    driver.subscribe(consumer, "client-individual", headers=window)
    driver.settle()
    driver.looking = True
    held: list[tuple[str, Key]] = []
    asked: dict[str, Key] = {}
    number = group = 0
    for _ in range(rounds):
        if dice.random() < 0.5:
            group += 1
            keys = [Key(1, number + offset, group) for offset in range(3)]
            number += 3
            frames = "BEGIN\ntransaction:t\n\n\0"
            for key in keys:
                driver.ledger.sent(["q"], key)
                body = key.body(dice.choice((30, 400))).decode()
                frames += f"SEND\ndestination:{driver.prefix}q\npersistent:true\ntransaction:t\n\n{body}\0"  # noqa: E501
            driver.say(producer, f"{frames}COMMIT\ntransaction:t\nreceipt:t\n\n\0")
        else:
            keys = [Key(1, number, 0)]
            number += 1
            driver.ledger.sent(["q"], keys[0])
            driver.send(producer, keys[0].body(200).decode())
        driver.settle()
        assert len(driver.receipts(producer)) == 1
        for key in keys:
            driver.ledger.receipted(["q"], key)
        for frame in driver.take(consumer):
            if frame.command == "MESSAGE":
                held.append((frame["ack"], Key.of(frame.body)))
        for _ in range(min(len(held), dice.randint(0, 6))):
            ack, key = held.pop(0 if dice.random() < 0.7 else -1)
            asked[ack] = key
            driver.ledger.ack_asked("q", key)
            driver.say(consumer, f"ACK\nid:{ack}\nreceipt:{ack}\n\n\0")
        driver.settle()
        for frame in driver.take(consumer):
            if frame.command == "RECEIPT":
                driver.ledger.acked("q", asked.pop(frame["receipt-id"]))
            else:
                held.append((frame["ack"], Key.of(frame.body)))
    assert driver.looks > 40
