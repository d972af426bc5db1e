"""A family is a folder and a row: a new one of thirty lines needs no change to protocols or to the
composition root."""

import pytest

from brokerproof.reference_broker import assembly
from brokerproof.reference_broker.assembly import FAMILIES, FamilyRow, Protocols
from brokerproof.reference_broker.families.artemis.admission import Admission
from brokerproof.reference_broker.families.artemis.family import ArtemisFamily
from brokerproof.reference_broker.families.parts import Parts
from brokerproof.reference_broker.kernel.admission import Verdict
from brokerproof.reference_broker.kernel.family import BrokerFamily
from brokerproof.reference_broker.settings.settings import Settings
from brokerproof.suites.units.drivers.broker import Driver, bodies, frames, send, subscribe


class DropEverything(Admission):
    def judge(self, address: str, *, by_credit: bool) -> Verdict:
        return Verdict.DROP


class DroppingFamily(ArtemisFamily):
    """An Artemis whose addresses are always full, under DROP."""

    admission_control = DropEverything


def assemble(parts: Parts) -> tuple[BrokerFamily, Protocols]:
    return DroppingFamily(parts), Protocols()


ROW = FamilyRow(lambda settings: settings.name == "dropping", assemble)


def arrived(name: str) -> list[str]:
    driver = Driver(Settings(name=name)).connected(1)
    driver.feed(1, subscribe())
    effects = driver.feed(1, send("body", headers="receipt:r\n"))
    assert "RECEIPT" in [frame.command for frame in frames(effects, 1)]
    return bodies(effects, 1)


def test_a_family_is_a_row(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(assembly, "FAMILIES", (ROW, *FAMILIES))
    assert arrived("reference") == ["body"]
    assert arrived("dropping") == []
