"""A link that rewrites the traffic between a case's peers and an unchanged broker.

The link acts like a faulty broker: it drops, delays, duplicates, reorders, truncates or modifies
frames, and delays closes. It handles frames (``stream_splitter.py``) in either direction, and works
alike in virtual and in real time. Clients with sockets of their own (stomp.py, Proton) bypass it.
"""

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, TypeAlias

from brokerproof.harness.model.enums import CloseHow
from brokerproof.harness.model.time import Duration, Instant
from brokerproof.harness.worlds.tls import Certificate
from brokerproof.harness.worlds.world import Channel, ForwardingChannel, Receiver, World
from brokerproof.suites.mutation.wire.stream_splitter import StreamSplitter, Unit


@dataclass(frozen=True, slots=True)
class Late:
    """Bytes that are passed on only after some time; later bytes wait for them."""

    data: bytes
    by: Duration


Out: TypeAlias = bytes | Late


class Rule:
    """Changes to one connection; by default there are none."""

    def from_broker(self, unit: Unit) -> Iterable[Out]:
        """Return what the peer gets in place of ``unit``."""
        return (unit.raw,)

    def to_broker(self, unit: Unit) -> Iterable[Out]:
        """Return what the broker gets in place of ``unit``."""
        return (unit.raw,)

    def closing(self) -> Duration:
        """Return the delay between the broker's close and the close that the peer sees."""
        return 0


class TamperingWorld:
    """``inner`` with the rule that ``rule()`` creates for each connection, otherwise unchanged."""

    def __init__(self, inner: World, rule: Callable[[], Rule]) -> None:
        self._inner, self._rule = inner, rule

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def open(
        self,
        acceptor: str,
        receiver: Receiver,
        certificate: Certificate | None = None,
        *,
        plain: bool = False,
    ) -> Channel:
        """Connect with a separate rule in between. Raises
        :class:`brokerproof.harness.worlds.world.Unreachable`."""
        between = _Between(self._inner, receiver, self._rule())
        between.use(self._inner.open(acceptor, between, certificate, plain=plain))
        return between


class _Lane:
    """One direction: the data to pass on, in order, each not before its time."""

    def __init__(self, world: World, pass_on: Callable[[bytes], None]) -> None:
        self._world, self._pass_on = world, pass_on
        self._waiting: deque[tuple[Instant, bytes]] = deque()

    @property
    def free(self) -> Instant:
        """Return the instant at which all waiting data will have been sent."""
        return self._waiting[-1][0] if self._waiting else self._world.now()

    def send(self, outs: Iterable[Out]) -> None:
        """Pass this data on, after the waiting data."""
        for out in outs:
            data, late = (out.data, out.by) if isinstance(out, Late) else (out, 0)
            due = max(self.free, self._world.now() + late)
            self._waiting.append((due, data))
            if due > self._world.now():
                self._world.at(due, self._pump)
        self._pump()

    def _pump(self) -> None:
        while self._waiting and self._waiting[0][0] <= self._world.now():
            _, data = self._waiting.popleft()
            if data:
                self._pass_on(data)


class _Between(ForwardingChannel):
    """Connects both sides of one link. A direction that the rule does not use is not split into
    frames."""

    def __init__(self, world: World, receiver: Receiver, rule: Rule) -> None:
        self._world, self._receiver, self._rule = world, receiver, rule
        self._arriving = StreamSplitter() if _looks_at(rule, "from_broker") else None
        self._leaving = StreamSplitter() if _looks_at(rule, "to_broker") else None
        self._left = False
        self._in, self._out = _Lane(world, self._hear), _Lane(world, self._say)

    def use(self, channel: Channel) -> None:
        """Set the link below this one."""
        self._channel = channel

    # from the broker

    def bytes_arrived(self, at: Instant, data: bytes) -> None:
        if self._arriving is None:
            self._in.send([data])
            return
        for unit in self._arriving.feed(data):
            self._in.send(self._rule.from_broker(unit))

    def channel_closed(self, at: Instant, how: CloseHow) -> None:
        if self._arriving is not None:
            self._in.send([self._arriving.rest()])
        end = max(self._in.free, at + self._rule.closing())
        if end <= at:
            self._end(how)
        else:
            self._world.at(end, lambda: self._end(how))

    def _hear(self, data: bytes) -> None:
        if not self._left:
            self._receiver.bytes_arrived(self._world.now(), data)

    def _end(self, how: CloseHow) -> None:
        if not self._left:
            self._receiver.channel_closed(self._world.now(), how)

    # to the broker

    def write(self, data: bytes) -> None:
        if self._leaving is None:
            self._out.send([data])
            return
        for unit in self._leaving.feed(data):
            self._out.send(self._rule.to_broker(unit))

    def _say(self, data: bytes) -> None:
        self._channel.write(data)

    def _flush(self) -> None:
        if self._leaving is not None:
            self._out.send([self._leaving.rest()])

    def half_close(self) -> None:
        self._flush()
        self._channel.half_close()

    def close(self) -> None:
        self._flush()
        self._left = True
        self._channel.close()

    def cut(self) -> None:
        self._left = True
        self._channel.cut()

    def hold_reading(self, held: bool) -> None:
        self._channel.hold_reading(held)


def _looks_at(rule: Rule, direction: str) -> bool:
    return getattr(type(rule), direction) is not getattr(Rule, direction)
