"""The time after a case during which its connections are still read."""

from __future__ import annotations

from dataclasses import dataclass

from brokerproof.harness.model.time import Duration, Instant


@dataclass(frozen=True, slots=True)
class Linger:
    """When the case ended (``since``) and when its connections were last read (``until``).

    The broker has ``grace`` to close, and its heartbeats may be late by ``jitter``. ``patience`` is
    the silence after which its documentation lets it close (None: unstated). Closes and silences
    are judged only if the connection was ``undisturbed``."""

    since: Instant
    until: Instant
    grace: Duration
    jitter: Duration
    patience: Duration | None = None
    undisturbed: bool = True
