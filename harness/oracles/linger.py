"""The period after a case in which its connections are still read."""

from dataclasses import dataclass

from brokerproof.harness.model.time import Duration, Instant


@dataclass(frozen=True, slots=True)
class Linger:
    """When a case ended (``since``) and when its connections were last read (``until``).

    The broker may take ``grace`` to close, and its heartbeats may be late by ``jitter``.
    ``patience`` is the silence after which the documentation lets the broker close (None:
    unstated). Closes and silences are judged only if the connection was ``undisturbed``."""

    since: Instant
    until: Instant
    grace: Duration
    jitter: Duration
    patience: Duration | None = None
    undisturbed: bool = True
