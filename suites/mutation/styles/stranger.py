"""The reference broker in a legal style, judged as an unknown broker by the specifications alone.

A style is written like a mutant but is not a fault: no sentence of a specification forbids it.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from brokerproof.harness.cases.bench import Bench
from brokerproof.harness.cases.calls import all_calls
from brokerproof.harness.catalogue import profiles
from brokerproof.harness.inference.dialects import infer_dialects
from brokerproof.harness.protocols.amqp091 import extensions
from brokerproof.harness.protocols.amqp091.codec import start_ok
from brokerproof.harness.protocols.amqp10.codec import NO_SASL
from brokerproof.harness.protocols.amqp10.raw_peer import HEADER, SASL_ID, frame
from brokerproof.harness.results.records import Result
from brokerproof.harness.targets.target import Overrides, Parameters, TargetFacts
from brokerproof.reference_broker.kernel.queue import Queue, RoundRobin
from brokerproof.suites.mutation import matrix
from brokerproof.suites.mutation.mutant import REFERENCE, Group, Mutant
from brokerproof.suites.mutation.target import MutantTarget

amqp10 = Group("legal-amqp10")
amqp091 = Group("legal-amqp091", "reference-rabbitmq")


def option(
    group: Group, owner: type, protocol: str, name: str, sentence: str, options: Mapping[str, Any]
) -> None:
    """Make a style of acceptors that have these options of ``protocol``."""

    def style(patch, reached):
        @patch.override(owner)
        def __init__(original, self, conn, acceptor, *arguments, **named):
            reached()
            changed = replace(getattr(acceptor, protocol), **options)
            original(self, conn, replace(acceptor, **{protocol: changed}), *arguments, **named)

    style.__name__, style.__doc__ = name, sentence
    group.mutant("")(style)


def common(group: Group, connection: type) -> None:
    """Make the styles that both AMQP 1.0 and 0-9-1 allow; ``connection`` is the protocol's."""

    @group.override(connection, "send", breaks="")
    def single_bytes(original, reached, self, data):
        """Each byte is a separate write: TCP keeps no boundaries."""
        reached()
        for position in range(len(data)):
            original(self, data[position : position + 1])

    @group.override(Queue, "_take_back", breaks="")
    def returned_last(original, reached, self, back):
        """Returned messages go to the end of their queue, last first: no text says where (AMQP 1.0,
        3.4.4; 0-9-1, 1.8.3.14; 4.7 orders only messages that are not redelivered)."""
        if self._ready or len(back) > 1:
            reached()
            last = (self._ready or back)[-1].order
            back = back[::-1]
            for entry in back:
                entry.order = last = last + 1
        original(self, back)

    @group.override(RoundRobin, "_end_turn", breaks="")
    def greedy(original, reached, self, consumer):
        """The first consumer gets the next message if it has room: there are no turns."""
        reached()


class StyleTarget(MutantTarget):
    """A broker in a style. Only its address is known."""

    def __init__(self, style: Mutant) -> None:
        super().__init__(style)
        self.protocol = "amqp" if style.original == REFERENCE else "amqp091"
        anything = profiles.load("any")
        spoken = {name for name in anything.capabilities if name.startswith(self.protocol)}
        if self.protocol == "amqp":
            spoken = {"amqp", "anycast", "multicast"}
        self.identity = replace(self.identity, profile=anything, capabilities=frozenset(spoken))

    def start(self, folder: Path) -> TargetFacts:
        """Ask the broker what it offers, like a run that knows only the broker's address."""
        facts = super().start(folder)
        parameters = _login(self.protocol, Bench(self, (), label="login", seed=1))
        profile = self.identity.profile
        profile = replace(profile, parameters={**profile.parameters, **parameters})
        self.identity = replace(self.identity, profile=profile)
        offered = frozenset(_announced(self.protocol, Bench(self, (), label="style", seed=1)))
        identity = replace(self.identity, capabilities=self.identity.capabilities | offered)
        self.identity = identity
        self.identity = infer_dialects(self, seed=1).applied(identity)
        return facts

    def acceptors(self, overrides: Overrides | None = None) -> dict[str, Parameters]:
        """Return nothing: an unknown broker has no configuration file to read."""
        name = self.identity.default_amqp_acceptor
        return {name: {"protocols": "AMQP", **self.identity.profile.parameters}}


def _login(protocol: str, bench: Bench) -> dict[str, str]:
    """Return the mechanism that admits clients, as discovery stores it."""
    if protocol == "amqp":
        peer = bench.amqp_peer()
        peer.header(SASL_ID)
        is_plain = peer.expect(frame(HEADER))["id"] == 0
        return {"amqp_sasl": NO_SASL} if is_plain else {}
    offered = bench.amqp091_peer().start()["mechanisms"]
    return {"amqp091_sasl": start_ok(offered.encode(), "", "")["mechanism"]}


def _announced(protocol: str, bench: Bench) -> set[str]:
    if protocol == "amqp":
        opened = bench.amqp(begin=False).opened
        names = None if opened is None else opened.get("offered-capabilities")
        return {"amqp-anonymous"} if "ANONYMOUS-RELAY" in (names or ()) else set()
    announced = bench.amqp091_peer().start()["server-properties"].get("capabilities") or {}
    return {name for key, name in extensions.ANNOUNCED.items() if announced.get(key)}


def judge(
    style: Mutant, seed: int = 1, part: int = 1, about: str = ""
) -> Iterator[tuple[Result, int]]:
    """Return the result of each case of the protocol with ``about`` in its name, or of every
    ``part``-th case, on a broker in this style, and how often it deviated from the reference."""
    target = StyleTarget(style)
    calls = [call for call in all_calls() if target.protocol in call.needs and about in call.id]
    return matrix.results_on(target, calls[::part], matrix.Plan(seed=seed))
