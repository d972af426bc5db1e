"""Sources and targets (3.5): distribution modes, dynamic nodes, and the broker's actual termini."""

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import strategies as st

from brokerproof.harness.protocols.amqp10 import codec
from brokerproof.harness.protocols.amqp10.codec import words
from brokerproof.harness.protocols.amqp10.types import NULL
from brokerproof.suites.amqp10.steps import QUIET, bodies, collect, fill, granted, numbered
from brokerproof.suites.api import Bench, case, listed, over, shown
from brokerproof.suites.api.amqp10 import (
    RECEIVER,
    SENDER,
    AmqpPeer,
    Described,
    Link,
    Node,
    either,
    frame,
    string,
    symbol,
)

DISTRIBUTION_MODE = "AMQP10-TERM-04"
TERMINUS_PROPERTIES = "AMQP10-LINK-05"
DYNAMIC_NODE = "AMQP10-TERM-02"
DYNAMIC_SAID = "AMQP10-READING-TERM-01"
MADE_OR_DETACHED = "AMQP10-READING-TERM-02"


def reader(peer: AmqpPeer, node: Node, mode: str | None) -> Link:
    fields = {
        "address": node.address,
        "capabilities": node.capabilities or None,
        "distribution-mode": mode,
    }
    return peer.receiver(node, source=codec.composite("source", fields))


def soon_detached(target: Bench, link: Link) -> bool:
    """True if the broker detaches the link soon."""
    return target.wait_until(lambda: link.detached is not None, QUIET)


def told(link: Link, terminus: str) -> dict[str, object]:
    assert link.answer is not None
    return link.answer.part(terminus)


@case(DISTRIBUTION_MODE, TERMINUS_PROPERTIES, needs={"amqp"})
@over(examples=20, mode=st.sampled_from(["copy", "move"]), count=st.integers(1, 4))
def test_the_mode_of_a_link_is_told_and_kept(target: Bench, mode: str, count: int) -> None:
    """A receiver asks for copy or move. The broker's attach names the link's mode, and the broker
    keeps to it: copied messages remain for another link, moved and accepted ones do not. A broker
    that cannot copy moves, and need not name the mode."""
    node, sent = target.node(), numbered(count)
    fill(target, node, sent)
    peer = target.amqp()
    link = reader(peer, node, mode)
    named = told(link, "source").get("distribution-mode")
    copies = "amqp-copy" in target.capabilities
    if named is None and not copies:
        target.record_not_applicable(DISTRIBUTION_MODE, "the broker has one mode and names none")
    else:
        detail = f"asked for {mode}, the broker answered with the distribution-mode {named}"
        target.record_finding(DISTRIBUTION_MODE, named in ("copy", "move"), detail)
    peer.flow(link, link_credit=count)
    got = collect(target, peer, link, count, quiet=0)
    target.control(bodies(got) == sent, f"of {listed(sent)}, {listed(bodies(got))} arrived")
    for delivery in got:
        peer.disposition(delivery)
    peer.settle()
    kept = named == "copy" or (named is None and mode == "copy" and copies)
    other = target.amqp()
    later = bodies(
        collect(target, other, other.receiver(node, credit=count + 5), count if kept else 0)
    )
    if mode == "copy" and later in (sent, []):
        target.record_behaviour("amqp.copy", "keeps" if later else "consumes")
    due = sent if kept else []
    words = f"after a link with distribution-mode {named or 'none'} got all messages, another link"
    words += f" got {listed(later)}; expected {listed(due)}"
    target.record_finding(TERMINUS_PROPERTIES, later == due, words)


UNKNOWN = "brokerproof:nobody-has-this"
UNKNOWN_PROPERTIES: Mapping[str, dict[str, Any]] = {
    "distribution-mode": {"distribution-mode": UNKNOWN},
    "capability": {"capabilities": (UNKNOWN,)},
    "filter": {"filter": {UNKNOWN: Described(symbol(UNKNOWN), string("x"))}},
}


@case(TERMINUS_PROPERTIES, needs={"amqp"})
@pytest.mark.parametrize("kind", list(UNKNOWN_PROPERTIES))
def test_a_property_that_no_source_has_is_not_told(target: Bench, kind: str) -> None:
    """A receiver asks for a source with a nonexistent distribution-mode, capability or filter. The
    link is refused, or the source in the broker's attach does not have it. The same source without
    it is attached first."""
    node, peer = target.node(), target.amqp()
    peer.detach(peer.receiver(node))
    fields = {"address": node.address, "capabilities": node.capabilities or None}
    fields |= UNKNOWN_PROPERTIES[kind]
    source = codec.composite("source", fields)
    link = peer.attach(RECEIVER, source=source, answered=False)
    peer.watch_for(either(frame("attach", name=link.name), frame("end"), frame("close")))
    source_told = words(link.answer.fields.get("source", NULL)) if link.answer else "no attach"
    untold = UNKNOWN not in source_told
    refused = link.answer is None or bool(soon_detached(target, link))
    target.record_behaviour(f"amqp.unknown-{kind}", "refuses" if refused else "attaches")
    target.record_finding(
        TERMINUS_PROPERTIES,
        untold,
        f"the broker {'does not claim' if untold else 'claims'} to support an unknown {kind}",
    )


@case(DYNAMIC_NODE, DYNAMIC_SAID, MADE_OR_DETACHED, needs={"amqp", "amqp-dynamic"})
@over(examples=10, role=st.sampled_from([SENDER, RECEIVER]), count=st.integers(1, 3))
def test_a_node_made_on_request_has_an_address(target: Bench, role: bool, count: int) -> None:
    """A client attaches with dynamic set. Each answer has dynamic set and a unique address, and a
    message sent to that address can be received from it. After an answer without them, which
    creates no node, the broker soon detaches its link."""
    peer = target.amqp()
    capabilities = target.node().capabilities or None
    side = "target" if role is SENDER else "source"
    made: list[tuple[Link, str]] = []
    for _ in range(count):
        terminus = codec.composite(side, {"dynamic": True, "capabilities": capabilities})
        fields: dict[str, Any] = {side: terminus}
        link = peer.attach(role, **fields)
        inside = told(link, side)
        address = inside.get("address")
        if not address and not inside.get("dynamic"):
            target.record_not_applicable((DYNAMIC_NODE, DYNAMIC_SAID), "no node was made")
            gone = soon_detached(target, link)
            target.record_finding(
                MADE_OR_DETACHED,
                gone,
                f"a dynamic {side} was answered with {shown(inside)},"
                f" and the link {'was detached' if gone else 'stays'}",
            )
            return
        target.record_held(MADE_OR_DETACHED, inside, f"a {side} was made: {shown(inside)}")
        detail = f"a dynamic {side} was answered with {shown(inside)}"
        target.record_finding(DYNAMIC_SAID, inside.get("dynamic") is True, detail)
        target.require(DYNAMIC_NODE, bool(address), detail)
        made.append((link, str(address)))
    names = {address for _, address in made}
    words = f"{count} nodes have the addresses {shown(sorted(names))}"
    target.record_finding(DYNAMIC_NODE, len(names) == count, words)
    for number, (link, address) in enumerate(made):
        node = Node(address, tuple(capabilities or ()))
        sender = link if role is SENDER else peer.sender(node)
        receiver = peer.receiver(node) if role is SENDER else link
        granted(target, peer, sender)
        peer.publish(sender, b"%d" % number)
        peer.flow(receiver, link_credit=1)
        peer.delivery(receiver, body=b"%d" % number, proves=DYNAMIC_NODE)
