"""A few kills of each kind of broker, as the soak does them by the thousand."""

from pathlib import Path

import pytest

from brokerproof.suites.soak.kill9 import FAMILIES, run_chain


@pytest.mark.parametrize("profile", sorted(FAMILIES))
def test_what_was_confirmed_is_there_after_a_kill(profile: str, tmp_path: Path) -> None:
    chain = run_chain(tmp_path / "chain", 1, 3, profile)
    assert chain.ledger.wrong == []
    assert chain.ledger.counts.receipted > 0
