"""An AMQP test bench whose broker has a disk in memory that answers on command."""

from brokerproof.harness.model.broker_io import Effect, LoadFile, StoreFiles
from brokerproof.harness.model.time import NS_PER_MS
from brokerproof.reference_broker.assembly import create_broker
from brokerproof.reference_broker.persistence.memory import DiskFaults, MemoryDisk
from brokerproof.reference_broker.persistence.store_from_settings import store
from brokerproof.reference_broker.settings.settings import Settings
from brokerproof.suites.units.drivers.amqp10 import Desk
from brokerproof.suites.units.drivers.persistence import SMALL


class StoringDesk(Desk):
    """A test bench with a disk that answers when :meth:`answer` is called."""

    def __init__(self, settings: Settings) -> None:
        self.disk = MemoryDisk(faults=DiskFaults(write=NS_PER_MS, read=NS_PER_MS))
        self.settings = settings
        self.asked: list[StoreFiles | LoadFile] = []
        super().__init__(settings)
        self.begin()

    def begin(self) -> None:
        self.asked.clear()
        self.out.clear()
        self.broker = create_broker(
            self.settings, start=self.now, store=store(self.settings, self.disk, SMALL)
        )
        self.answer()

    def note(self, effects: list[Effect]) -> list[Effect]:
        self.asked += [effect for effect in effects if isinstance(effect, StoreFiles | LoadFile)]
        return super().note(effects)

    def answer(self) -> None:
        while self.asked:
            at, answer = self.disk.carry(self.now, self.asked.pop(0))
            self.now = max(self.now, at)
            self.note(self.broker.handle(self.now, answer))
