"""Exchanges: where a message that is published to one goes, by its routing key and headers.

=======  ==============================================================================================================
type     a message goes on by a binding
=======  ==============================================================================================================
direct   whose key is its routing key
fanout   always
topic    whose key, words separated by dots, fits its routing key: ``*`` is any word, ``#`` any words, also none
headers  whose arguments its headers have: all of them, or with ``x-match`` = ``any`` one; names with ``x-`` do not count
=======  ==============================================================================================================

The exchange without a name is direct, and every queue is bound to it by its own name and in no
other way. A binding leads to a queue or to another exchange; however many ways lead to a queue, it
gets a message once, and cycles do no harm.
"""  # noqa: E501

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from brokerproof.reference_broker.kernel.queue import Queue

DEFAULT = ""
TYPES = ("direct", "fanout", "topic", "headers")
PREDECLARED: dict[str, str] = {
    **{f"amq.{kind}": kind for kind in TYPES},
    "amq.match": "headers",
    "amq.rabbitmq.trace": "topic",
}
"""Exchanges that are always there, besides the one without a name, and their types."""

Table = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Binding:
    """From an exchange to ``target``. ``arguments`` are a table, ``identity`` the same in a form
    that can be compared."""

    key: str
    target: Queue | Exchange
    arguments: Table = field(compare=False, hash=False)
    identity: str = ""


@dataclass(eq=False, slots=True)
class Exchange:
    """One exchange. ``arguments`` are those that it was declared with."""

    name: str
    type: str
    durable: bool = True
    auto_delete: bool = False
    internal: bool = False
    arguments: Table = field(default_factory=dict)
    bindings: dict[Binding, None] = field(default_factory=dict)
    sources: int = 0
    """How many bindings lead here."""

    @property
    def alternate(self) -> str | None:
        """The exchange for what no binding fits, if there is to be one."""
        name = self.arguments.get("alternate-exchange")
        return name if isinstance(name, str) else None

    def fitting(self, key: str, headers: Table) -> Iterator[Binding]:
        """The bindings that a message with this routing key and these headers goes on by."""
        matches = _MATCHES[self.type]
        return (binding for binding in self.bindings if matches(binding, key, headers))


def _direct(binding: Binding, key: str, headers: Table) -> bool:
    return binding.key == key


def _fanout(binding: Binding, key: str, headers: Table) -> bool:
    return True


def _topic(binding: Binding, key: str, headers: Table) -> bool:
    return topic_fits(binding.key, key)


def _headers(binding: Binding, key: str, headers: Table) -> bool:
    wanted = {name: value for name, value in binding.arguments.items() if not name.startswith("x-")}
    way = binding.arguments.get("x-match", "all")
    if way in ("all-with-x", "any-with-x"):
        wanted = {name: value for name, value in binding.arguments.items() if name != "x-match"}
    found = (
        name in headers and (value is None or headers[name] == value)
        for name, value in wanted.items()
    )
    return any(found) if str(way).startswith("any") else all(found)


_MATCHES: dict[str, Callable[[Binding, str, Table], bool]] = {
    "direct": _direct,
    "fanout": _fanout,
    "topic": _topic,
    "headers": _headers,
}


def topic_fits(key: str, routing_key: str) -> bool:
    """True if a topic exchange's binding ``key`` lets ``routing_key`` pass. An empty key has no
    words."""
    words = _words(routing_key)
    reached = {0}  # how many words of the routing key the pattern so far can have taken
    for word in _words(key):
        if word == "#":
            reached = set(range(min(reached), len(words) + 1))
        else:
            reached = {at + 1 for at in reached if at < len(words) and word in ("*", words[at])}
        if not reached:
            return False
    return len(words) in reached


def _words(key: str) -> list[str]:
    return key.split(".") if key else []


class Exchanges:
    """All exchanges of a broker. ``queue`` finds a queue by its name."""

    def __init__(self, queue: Callable[[str], Queue | None]) -> None:
        self._queue = queue
        self._all = {name: Exchange(name, kind) for name, kind in PREDECLARED.items()}
        self._default = Exchange(DEFAULT, "direct")

    def __len__(self) -> int:
        """Return the number of exchanges, the default exchange included."""
        return len(self._all) + 1

    def find(self, name: str) -> Exchange | None:
        """The exchange of that name."""
        return self._default if name == DEFAULT else self._all.get(name)

    def add(self, exchange: Exchange) -> None:
        """A new exchange; there is none of that name."""
        self._all[exchange.name] = exchange

    def remove(self, exchange: Exchange) -> None:
        """Removes an exchange and the bindings that it has or that lead to it."""
        del self._all[exchange.name]
        for binding in list(exchange.bindings):
            self._unbind(exchange, binding)
        self.forget(exchange)

    def bind(self, source: Exchange, binding: Binding) -> None:
        """Binds; a binding that is there already stays the one it is."""
        if binding not in source.bindings:
            source.bindings[binding] = None
            if isinstance(binding.target, Exchange):
                binding.target.sources += 1

    def unbind(self, source: Exchange, binding: Binding) -> None:
        """Takes a binding away; nothing happens when there is none. An ``auto_delete`` exchange
        goes with its last one."""
        if binding in source.bindings:
            self._unbind(source, binding)
            self._tidy(source)

    def _unbind(self, source: Exchange, binding: Binding) -> None:
        del source.bindings[binding]
        if isinstance(binding.target, Exchange):
            binding.target.sources -= 1

    def forget(self, target: Queue | Exchange) -> None:
        """``target`` exists no more: bindings that lead to it go."""
        for source in list(self._all.values()):
            gone = [binding for binding in source.bindings if binding.target is target]
            for binding in gone:
                self._unbind(source, binding)
            if gone:
                self._tidy(source)

    def _tidy(self, source: Exchange) -> None:
        if source.auto_delete and not source.bindings and self._all.get(source.name) is source:
            self.remove(source)

    def route(self, exchange: Exchange, key: str, headers: Table) -> list[Queue]:
        """The queues that a message goes to, each once, in the order of their bindings."""
        found: dict[Queue, None] = {}
        seen = {exchange}
        waiting = [exchange]
        while waiting:
            current = waiting.pop(0)
            if current is self._default:
                queue = self._queue(key)
                targets: list[Queue | Exchange] = [] if queue is None else [queue]
            else:
                targets = [binding.target for binding in current.fitting(key, headers)]
            if not targets and current.alternate is not None:
                other = self.find(current.alternate)
                targets = [] if other is None else [other]
            for target in targets:
                if isinstance(target, Queue):
                    found[target] = None
                elif target not in seen:
                    seen.add(target)
                    waiting.append(target)
        return list(found)
