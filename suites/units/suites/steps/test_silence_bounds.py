"""How long a broker may have left a client's last bytes unread."""

from types import SimpleNamespace
from typing import Any

import pytest

from brokerproof.harness.protocols.stomp.raw_peer import StompPeer
from brokerproof.suites.steps.silence import unread_for


def peer(spoke_at: int | None, heard_at: int | None) -> Any:
    made = object.__new__(StompPeer)
    made.spoke_at, made.heard_at = spoke_at, heard_at
    return made


@pytest.mark.parametrize(
    ("spoke_at", "heard_at", "unread"),
    [(5, 450, 445), (450, 5, 0), (450, None, 0), (None, None, 0)],
)
def test_a_login_that_was_answered_late_was_perhaps_read_late(
    spoke_at: int | None, heard_at: int | None, unread: int
) -> None:
    bench: Any = SimpleNamespace(virtual=False)
    assert unread_for(bench, peer(spoke_at, heard_at)) == unread


def test_no_broker_is_busy_in_virtual_time() -> None:
    bench: Any = SimpleNamespace(virtual=True)
    assert unread_for(bench, peer(5, 450)) == 0
