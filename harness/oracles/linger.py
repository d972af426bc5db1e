"""The time behind a case in which its connections are still read."""

from __future__ import annotations

from dataclasses import dataclass

from brokerproof.harness.model.time import Duration, Instant


@dataclass(frozen=True, slots=True)
class Linger:
    """When the case ended (``since``) and when the last look was (``until``).

    The broker has ``grace`` to close, and is late with a heartbeat by at most ``jitter``.
    ``patience`` is the silence after which its own documentation lets it close; None: it names
    none. Unless the connection was ``undisturbed``, no end and no silence is judged.
    """

    since: Instant
    until: Instant
    grace: Duration
    jitter: Duration
    patience: Duration | None = None
    undisturbed: bool = True
