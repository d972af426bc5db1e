"""The close of a silent connection: awaited a little longer than its interval, and judged on both
sides of it."""

from __future__ import annotations

from typing import Any

from brokerproof.harness.cases.bench import Bench
from brokerproof.harness.model.time import Duration, Instant, ms, seconds
from brokerproof.harness.protocols.conversation import Conversation, Requirements

GRACE: Duration = seconds(3)
"""How long we wait beyond the interval before we say that the broker never closes."""


def judge_close(
    target: Bench,
    peer: Conversation[Any],
    proves: Requirements,
    since: Instant,
    bounds: tuple[Duration, Duration],
    agreed: str,
) -> None:
    """Waits for the close of a connection that has been silent ``since``. ``agreed`` says with what
    time, in words."""
    target.expect_interval(proves, "close of the silent connection", since, bounds)
    target.wait_until(lambda: peer.ended is not None, since + bounds[1] + GRACE - target.now())
    # A broker that did not get a core meanwhile could not close, either.
    if not target.wait_until(lambda: peer.ended is not None, target.world.lateness(since)):
        waited = (target.now() - since) // ms(1)
        target.record_finding(
            proves, False, f"silent for {waited} ms with {agreed}, and not closed"
        )
        return
    assert peer.ended is not None
    target.judge_duration(proves, "silence until the close", peer.ended.at - since, bounds, since)
