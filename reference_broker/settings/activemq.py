"""Settings of an ActiveMQ Classic besides its connectors: destination policies and usage limits.

The defaults are those of ActiveMQ 6.3.1 (``PolicyEntry``, ``BaseDestination``,
``BrokerService.getSystemUsage``, ``ActiveMQPrefetchPolicy``). Values are in bytes and milliseconds,
as in the files.
"""

import enum
import functools
from dataclasses import dataclass

from brokerproof.reference_broker.settings.parameters import Options

GIB = 1024**3


class Cursor(enum.StrEnum):
    """The kind of cursor that keeps a queue's waiting messages (``pendingQueuePolicy``)."""

    STORE = "storeCursor"
    FILE = "fileQueueCursor"
    VM = "vmQueueCursor"


@dataclass(frozen=True, slots=True)
class DestinationPolicy:
    """A ``policyEntry``. ``pattern`` is qualified (``queue://FOO.>``); empty for the default
    entry."""

    pattern: str = ""
    memory_limit: int = 0
    """``memoryLimit``; 0 means that only the limit of the whole broker applies."""
    producer_flow_control: bool = True
    cursor: Cursor = Cursor.STORE
    cursor_memory_high_water_mark: int = 70
    store_usage_high_water_mark: int = 100
    """The percentage of the memory limit above which cursors keep messages elsewhere, and of the
    store limit at which the store is full."""
    max_page_size: int = 200
    """Messages that a queue holds in memory for its consumers, beyond those already delivered."""
    minimum_message_size: int = 1024
    """Bytes charged for a message in addition to its own size."""
    queue_prefetch: int = 1000
    queue_browser_prefetch: int = 500
    topic_prefetch: int = 32767
    durable_topic_prefetch: int = 100
    send_fail_if_no_space: bool | None = None
    send_fail_after_ms: int | None = None
    """If None, ``systemUsage`` decides."""

    def matches(self, name: str) -> bool:
        """Return True if the entry applies to the destination with this qualified name. ``*`` is
        one word; ``>`` at the end is any number of words, even none."""
        kind, _, pattern = self.pattern.partition("://")
        other, _, destination = name.partition("://")
        if kind != other:
            return False
        words, path = pattern.split("."), destination.split(".")
        while len(words) > 1 and words[-1] == words[-2] == ">":
            words.pop()
        if words[-1] == ">":
            words.pop()
            path = path[: len(words)]
        return len(words) == len(path) and all(
            pattern_word in ("*", word) or word == "*"
            for pattern_word, word in zip(words, path, strict=True)
        )


@dataclass(frozen=True, slots=True)
class SystemUsage:
    """``systemUsage``: what all destinations together may use. A limit of 0 means no limit."""

    memory: int = GIB
    memory_percent: int = 0
    """``percentOfJvmHeap``, which takes precedence unless it is 0."""
    store: int = 100 * GIB
    store_percent: int = 0
    store_total: int = 0
    temp: int = 50 * GIB
    temp_percent: int = 0
    temp_total: int = 0
    """``percentLimit`` is a share of ``total``, or of the disk if ``total`` is 0."""
    send_fail_if_no_space: bool = False
    send_fail_after_ms: int = 0


@dataclass(frozen=True, slots=True)
class ActiveMq(Options):
    persistent: bool = True
    """True if there is a store on disk, and with it a temporary store."""
    policies: tuple[DestinationPolicy, ...] = ()
    default_policy: DestinationPolicy = DestinationPolicy()
    usage: SystemUsage = SystemUsage()
    statistics: bool = False
    """``statisticsBrokerPlugin``: the broker answers messages to ``ActiveMQ.Statistics.*``."""
    stalls_at_the_store: bool = False
    """If true, a send for which the store has no space stalls its connection even if the producer
    waits for an answer, as in release 6.3.1. If false, only the send waits (ACTIVEMQ-PFC-1)."""
    heap: int = GIB
    """Bytes in the Java heap, of which ``percentOfJvmHeap`` is a share."""
    disk_space: int | None = None
    """Bytes of disk space available to messages, which no limit exceeds. None means unlimited."""

    def policy(self, name: str) -> DestinationPolicy:
        """Return the entry for this qualified name: an equal entry, or else the closest match."""
        matching = [policy for policy in self.policies if policy.matches(name)]
        exact = [policy for policy in matching if policy.pattern == name]
        ranked = exact or sorted(matching, key=functools.cmp_to_key(_closer))
        return ranked[0] if ranked else self.default_policy


def _closer(left: DestinationPolicy, right: DestinationPolicy) -> int:
    """Return a negative number if ``left`` is closer to what both match
    (``ActiveMQDestination.compare``)."""
    if left.pattern == right.pattern:
        return 0
    if left.matches(right.pattern):
        return 1
    if right.matches(left.pattern):
        return -1
    return -1 if left.pattern < right.pattern else 1


def limit_of(size: int, percent: int, of: int | None) -> int:
    """Return a limit in bytes: ``percent`` of ``of`` if both are known, else ``size``, and never
    more than ``of``."""
    if of is None:
        return size
    return min(of * percent // 100 if percent else size, of) if size or percent else 0
