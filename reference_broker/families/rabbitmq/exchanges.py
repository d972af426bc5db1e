"""Exchanges route a published message by its routing key and headers.

=======  ==============================================================================================================
type     a message follows a binding
=======  ==============================================================================================================
direct   whose key is its routing key
fanout   always
topic    whose key, words separated by dots, fits its routing key: ``*`` is any word, ``#`` any words or none
headers  whose arguments its headers have: all of them, or with ``x-match`` = ``any`` one; names with ``x-`` do not count
=======  ==============================================================================================================

The exchange without a name is direct, and every queue is bound to it by its own name only. A
binding leads to a queue or to another exchange; a queue gets a message once even if several ways
lead to it, and cycles are harmless.
"""  # noqa: E501

from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from brokerproof.reference_broker.kernel.creators import Creators
from brokerproof.reference_broker.kernel.queue import Queue

DEFAULT = ""
TYPES = ("direct", "fanout", "topic", "headers")
PREDECLARED: dict[str, str] = {
    **{f"amq.{kind}": kind for kind in TYPES},
    "amq.match": "headers",
    "amq.rabbitmq.trace": "topic",
}
"""Exchanges that always exist, except the one without a name, and their types."""

Table = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Binding:
    """A binding from an exchange to ``target``. ``arguments`` are a table; ``identity`` is the
    table's comparable form."""

    key: str
    target: "Queue | Exchange"
    arguments: Table = field(compare=False, hash=False)
    identity: str = ""


def _words(key: str) -> list[str]:
    return key.split(".") if key else []


class KeyTree:
    """The binding keys of a topic exchange, with a node for each word."""

    __slots__ = ("children", "key")

    def __init__(self) -> None:
        self.children: dict[str, KeyTree] = {}
        self.key: str | None = None
        """The binding key that ends here."""

    def add(self, key: str) -> None:
        node = self
        for word in _words(key):
            node = node.children.setdefault(word, KeyTree())
        node.key = key

    def remove(self, key: str) -> None:
        """Remove ``key``, which must have been added, and nodes that lead to nothing else."""
        words = _words(key)
        path = [self]
        for word in words:
            path.append(path[-1].children[word])
        path[-1].key = None
        for word, parent, node in zip(reversed(words), path[-2::-1], path[:0:-1], strict=True):
            if node.children or node.key is not None:
                return
            del parent.children[word]

    def fitting(self, routing_key: str) -> list[str]:
        """Return the keys that match ``routing_key``. An empty key has no words."""
        words = _words(routing_key)
        reached = {(self, 0)}
        waiting = [(self, 0)]
        matches: set[str] = set()
        while waiting:
            node, at = waiting.pop()
            if at == len(words) and node.key is not None:
                matches.add(node.key)
            steps = []
            if at < len(words):
                exact, any_word = node.children.get(words[at]), node.children.get("*")
                steps = [(child, at + 1) for child in (exact, any_word) if child is not None]
            any_words = node.children.get("#")
            if any_words is not None:
                steps += [(any_words, end) for end in range(at, len(words) + 1)]
            for step in steps:
                if step not in reached:
                    reached.add(step)
                    waiting.append(step)
        return list(matches)


@dataclass(eq=False, slots=True)
class Exchange:
    """One exchange. ``arguments`` are those in its declaration."""

    name: str
    type: str
    durable: bool = True
    auto_delete: bool = False
    internal: bool = False
    arguments: Table = field(default_factory=dict)
    bindings: OrderedDict[Binding, int] = field(default_factory=OrderedDict)
    """Bindings, each with its position in the order of creation."""
    by_key: dict[str, OrderedDict[Binding, None]] = field(default_factory=dict)
    tree: KeyTree = field(default_factory=KeyTree)
    made: int = 0
    sources: int = 0
    """Number of bindings that lead here."""

    @property
    def alternate(self) -> str | None:
        """The alternate exchange for messages that match no binding, if declared."""
        name = self.arguments.get("alternate-exchange")
        return name if isinstance(name, str) else None

    def add(self, binding: Binding) -> None:
        """Add ``binding`` after all others."""
        self.made += 1
        self.bindings[binding] = self.made
        self.by_key.setdefault(binding.key, OrderedDict())[binding] = None
        if self.type == "topic" and len(self.by_key[binding.key]) == 1:
            self.tree.add(binding.key)

    def remove(self, binding: Binding) -> None:
        del self.bindings[binding]
        same_key = self.by_key[binding.key]
        del same_key[binding]
        if not same_key:
            del self.by_key[binding.key]
            if self.type == "topic":
                self.tree.remove(binding.key)

    def fitting(self, key: str, headers: Table) -> Iterable[Binding]:
        """Return the bindings that match a message with this routing key and headers, in order.

        Only a headers exchange checks every binding.
        """
        match self.type:
            case "direct":
                return self.by_key.get(key, ())
            case "topic":
                fitting = (
                    binding
                    for fitting_key in self.tree.fitting(key)
                    for binding in self.by_key[fitting_key]
                )
                return sorted(fitting, key=self.bindings.__getitem__)
            case "headers":
                return (binding for binding in self.bindings if _headers(binding, headers))
        return self.bindings


def _headers(binding: Binding, headers: Table) -> bool:
    required = {
        name: value for name, value in binding.arguments.items() if not name.startswith("x-")
    }
    way = binding.arguments.get("x-match", "all")
    if way in ("all-with-x", "any-with-x"):
        required = {name: value for name, value in binding.arguments.items() if name != "x-match"}
    matches = (
        name in headers and (value is None or headers[name] == value)
        for name, value in required.items()
    )
    return any(matches) if str(way).startswith("any") else all(matches)


class Exchanges:
    """All exchanges of a broker. ``queue`` finds a queue by name."""

    def __init__(self, queue: Callable[[str], Queue | None]) -> None:
        self._queue = queue
        self._all = {name: Exchange(name, kind) for name, kind in PREDECLARED.items()}
        self._default = Exchange(DEFAULT, "direct")
        self._leading: dict[Queue | Exchange, OrderedDict[tuple[Exchange, Binding], None]] = {}
        """Bindings with their sources, by target."""
        self.creators = Creators[str]()
        """Connections that have declared exchanges, by the names of the exchanges."""
        self.binders = Creators[tuple[Exchange, Binding]]()

    def __len__(self) -> int:
        """Return the number of exchanges, including the default exchange."""
        return len(self._all) + 1

    def find(self, name: str) -> Exchange | None:
        return self._default if name == DEFAULT else self._all.get(name)

    def add(self, exchange: Exchange, conn: int) -> None:
        """Add an exchange that ``conn`` declares; its name must be new."""
        self._all[exchange.name] = exchange
        self.creators.add(conn, exchange.name)

    def remove(self, exchange: Exchange) -> None:
        """Remove an exchange and all bindings from or to it."""
        del self._all[exchange.name]
        self.creators.remove(exchange.name)
        for binding in list(exchange.bindings):
            self._unbind(exchange, binding)
        self.forget(exchange)

    def bind(self, source: Exchange, binding: Binding, conn: int) -> None:
        """Add a binding made by ``conn``, unless it exists."""
        if binding not in source.bindings:
            source.add(binding)
            self.binders.add(conn, (source, binding))
            self._leading.setdefault(binding.target, OrderedDict())[source, binding] = None
            if isinstance(binding.target, Exchange):
                binding.target.sources += 1

    def unbind(self, source: Exchange, binding: Binding) -> None:
        """Remove a binding if it exists. An ``auto_delete`` exchange ends with its last binding."""
        if binding in source.bindings:
            self._unbind(source, binding)
            self._tidy(source)

    def _unbind(self, source: Exchange, binding: Binding) -> None:
        source.remove(binding)
        self.binders.remove((source, binding))
        leading = self._leading[binding.target]
        del leading[source, binding]
        if not leading:
            del self._leading[binding.target]
        if isinstance(binding.target, Exchange):
            binding.target.sources -= 1

    def forget(self, target: Queue | Exchange) -> None:
        """Remove all bindings to ``target``, which no longer exists."""
        for source, binding in list(self._leading.get(target, ())):
            if binding in source.bindings:
                self._unbind(source, binding)
                self._tidy(source)

    def _tidy(self, source: Exchange) -> None:
        if source.auto_delete and not source.bindings and self._all.get(source.name) is source:
            self.remove(source)

    def route(self, exchange: Exchange, key: str, headers: Table) -> list[Queue]:
        """Return the queues for a message, each of them once, in the order of their bindings."""
        queues: dict[Queue, None] = {}
        seen = {exchange}
        waiting = [exchange]
        for current in waiting:  # ``waiting`` grows during the loop
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
                    queues[target] = None
                elif target not in seen:
                    seen.add(target)
                    waiting.append(target)
        return list(queues)
