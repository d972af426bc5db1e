"""A few kills of each kind of reference broker (the soak has thousands) and of brokers with a
fault."""

from pathlib import Path

import pytest

from brokerproof.suites.soak import deaths
from brokerproof.suites.soak.brokers import FAMILIES, Disk, ReferenceBroker, Stuck

LOSES = """
from brokerproof.reference_broker.persistence import recovery
run = recovery._Recovery.run
def loses(self):
    recovered = run(self)
    for place in list(recovered.kept)[::2]:
        del recovered.kept[place]
    return recovered
recovery._Recovery.run = loses
"""
HANGS = "import signal\nsignal.signal(signal.SIGCONT, lambda *_: signal.pause())\n"
SERVES = "from brokerproof.suites.soak.process_forks import main\nmain()\n"


@pytest.mark.parametrize("target", [name for name in FAMILIES if name.startswith("reference")])
def test_what_was_confirmed_is_there_after_a_death(
    target: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deaths, "HOW", ("kill", "terminate", "pause"))
    chain = deaths.run_chain(tmp_path / "chain", 1, 3, target)
    assert chain.ledger.wrong == []
    assert chain.ledger.counts.receipted > 0


@pytest.mark.parametrize(
    ("fault", "how", "sentence"),
    [(LOSES, "kill", "had its receipt and is lost"), (HANGS, "pause", "still waits")],
    ids=["loses", "hangs"],
)
def test_a_fault_is_seen(
    fault: str, how: str, sentence: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ReferenceBroker, "nursery", ("-c", fault + SERVES))
    monkeypatch.setattr(deaths, "HOW", (how,))
    monkeypatch.setattr(deaths, "GOES_ON_WITHIN_S", 1.0)
    chain = deaths.run_chain(tmp_path / "chain", 1, 3, "reference")
    assert any(sentence in wrong for wrong in chain.ledger.wrong)
    assert "WRONG" in (tmp_path / "chain" / "record.txt").read_text()


def test_a_disk_is_filled_and_cleared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    try:
        disk = Disk(tmp_path)
    except Stuck as problem:
        pytest.skip(str(problem))
    file = tmp_path / "file"
    try:
        disk.fill(0)
        with pytest.raises(OSError, match="No space left"):
            file.write_bytes(bytes(4096))
        disk.clear()
        file.write_bytes(bytes(4096))
    finally:
        disk.close()
