"""Messages a second over AMQP 1.0: the reference broker, the real brokers that speak it, in one
run on one machine.

``python benchmarks/amqp_throughput.py`` runs every scenario on every broker several times,
interleaved, so that what the machine does meanwhile meets all alike, and prints the figures and the
ratios of the reference to each other broker, pair by pair. See README.md beside this file for what
is measured.
"""

from __future__ import annotations

import argparse
import sys

from amqp_brokers import BROKERS, Broker
from amqp_peers import Job, work
from comparison import Comparison, run

SCENARIOS = {
    "unsettled": (
        "each message accepted by the broker, and each accepted by a consumer with {window} credits"
    ),
    "settled": "sent settled, received settled (where the broker does that) with {window} credits",
    "backlog": (
        "each message accepted by the broker first, then taken and accepted with {window} credits"
    ),
}


def job_for(broker: Broker, scenario: str, queue: str, options: argparse.Namespace) -> Job:
    """The peers' jobs."""
    return Job(
        port=broker.port,
        address=broker.where.format(queue),
        capability=broker.capability,
        login=broker.login,
        passcode=broker.passcode,
        messages=options.messages,
        size=options.size,
        durable=options.durable,
        settled=scenario == "settled",
        window=options.window,
        backlog=scenario == "backlog",
        patience_s=options.patience,
    )


def main() -> int:
    """See ``comparison.run``."""
    title = (__doc__ or "").splitlines()[0]
    return run(Comparison(title, "reference", SCENARIOS, BROKERS, job_for, work))


if __name__ == "__main__":
    sys.exit(main())
