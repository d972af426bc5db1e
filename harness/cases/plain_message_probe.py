"""Probe: a plain message still passes through the broker as it did when the run began.

A broker may enter a state in which it serves nobody: the disk or the memory of its machine is full,
or a limit was set from outside. The result of a case is then no answer to the case's question. So
before a violation in real time is reported, one message is sent and received. Where that worked at
the beginning and no longer works, the violation is uncertain. A broker through which no message
passes from the beginning is judged as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import count

from brokerproof.harness.cases.bench import Bench
from brokerproof.harness.protocols.conversation import ControlFailed, Violated
from brokerproof.harness.targets.target import Target

_BODY = b"a plain message"
_TRIES = 2
"""One probe may meet with a bad moment of the host."""


def _stomp(bench: Bench) -> None:
    peer, place = bench.stomp(), bench.destination()
    peer.subscribe(place)
    peer.publish(place, _BODY)
    peer.message(body=_BODY)


def _amqp(bench: Bench) -> None:
    peer, place = bench.amqp(), bench.node()
    taking = peer.receiver(place, credit=1)
    peer.publish(peer.sender(place), _BODY)
    peer.disposition(peer.delivery(taking, body=_BODY))


_BY_CAPABILITY: Mapping[str, Callable[[Bench], None]] = {"stomp": _stomp, "amqp": _amqp}


class PlainMessage:
    """Sends one at once over each protocol that ``target`` speaks; ``seed`` tells its addresses
    from those of cases."""

    def __init__(self, target: Target, seed: int) -> None:
        self._target, self._seed, self._numbers = target, seed, count(1)
        spoken = [name for name in _BY_CAPABILITY if name in target.identity.capabilities]
        self._passed = [name for name in spoken if not self._lost(name)]

    def lost(self) -> str:
        """Why a plain message that passed at the beginning does not now; empty when it does, or
        never did."""
        return next((why for name in self._passed if (why := self._lost(name))), "")

    def _lost(self, name: str) -> str:
        why = ""
        for _ in range(_TRIES):
            bench = Bench(
                self._target, (), label=f"plain-message-{next(self._numbers)}", seed=self._seed
            )
            try:
                _BY_CAPABILITY[name](bench)
            except (ControlFailed, Violated) as problem:
                why = (
                    f"a plain {name.upper()} message, which passed when the run began, does not"
                    f" pass now: {problem}"
                )
            else:
                return ""
            finally:
                bench.close()
        return why
