"""The credit of AMQP producers: how much a link receives, and at what remainder the broker
replenishes it."""

from functools import partial

from brokerproof.harness.cases.bench import Bench
from brokerproof.harness.inference.estimate import Estimate, Range
from brokerproof.harness.model.time import ms
from brokerproof.harness.protocols.amqp10.endpoint_state import Link
from brokerproof.harness.protocols.amqp10.raw_peer import frame

MOST = 5000
"""The most credit that is used up on a link."""


def infer_credit(bench: Bench, acceptor: str | None) -> list[Estimate]:
    """Find the credit granted to producers on ``acceptor`` and the remainder at which it is
    replenished, by sending messages one by one on a link."""
    peer = bench.amqp(acceptor=acceptor)
    link = peer.sender(bench.node())
    peer.watch_for(frame("flow", link=link))
    most = link.credit
    estimates = [
        Estimate("amqp_credits", Range.of(most, most), "deliveries", "the first flow of a new link")
    ]
    if not 0 < most <= MOST:
        return [
            *estimates,
            Estimate("amqp_low_credits", None, "deliveries", f"{most} credits are not run down"),
        ]
    left = most
    while left:
        peer.publish(link, b"paced")
        peer.settle()
        left -= 1
        # The flow may arrive after the message's settlement.
        granted = partial(_has_more_credit, link, left)
        if bench.wait_until(granted, ms(0 if bench.virtual else 30)) or granted():
            break
    words = f"a flow gave {link.credit} when {left} were left"
    slack = 0 if bench.virtual else 1
    estimates.append(
        Estimate("amqp_low_credits", Range.of(max(0, left), left + slack), "deliveries", words)
    )
    peer.close()
    return estimates


def _has_more_credit(link: Link, than: int) -> bool:
    return link.credit > than
