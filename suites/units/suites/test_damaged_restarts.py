"""A few restarts of real processes on damaged files, and the damages themselves."""

import random
from pathlib import Path

import pytest

from brokerproof.suites.soak import damages
from brokerproof.suites.soak.damaged_restarts import NAMINGS, Tally, restarts

FILES = {
    f"journal/00000000{number}.journal": b"".join(
        b"\xb7\xa6" + record.to_bytes(4) + (3).to_bytes(4) + bytes(4) + b"%d-%d" % (number, record)
        for record in range(4)
    )
    for number in range(3)
}


@pytest.mark.parametrize("profile", NAMINGS)
def test_no_damage_is_hidden(tmp_path: Path, profile: str) -> None:
    tally = Tally()
    restarts(tmp_path, profile, 6, 7, tally)
    assert (tally.restarts, tally.hidden) == (6, [])


@pytest.mark.parametrize("way", damages.ALL)
def test_a_damage_changes_the_files_that_it_names(way: str) -> None:
    for seed in range(40):
        damage = damages.ALL[way](random.Random(seed), FILES)
        if damage is None:
            continue
        after = damage.on(FILES)
        changed = {name for name in {*FILES, *after} if FILES.get(name) != after.get(name)}
        assert changed <= set(damage.changes)
        assert all(name in damage.sentence for name in changed)


def test_boundaries_are_those_of_the_records() -> None:
    data = FILES["journal/000000001.journal"]
    assert damages.boundaries(data) == [0, 17, 34, 51, 68]
    assert damages.boundaries(data[:-1]) == [0, 17, 34, 51]
