"""Messages a second over STOMP: the reference broker and others that speak it, in one run on one
machine.

``python benchmarks/stomp_throughput.py`` runs every scenario on every broker several times,
interleaved, so that what the machine does meanwhile meets all alike, and prints the figures and the
ratios of the reference to each other broker, pair by pair. See README.md beside this file for what
is measured.
"""

from __future__ import annotations

import argparse
import sys

from comparison import Comparison, run
from stomp_brokers import BROKERS, Broker
from stomp_peers import Job, work

SCENARIOS = {
    "stream": "SENDs without receipts as fast as they go, consumer waiting, ack:auto",
    "window": (
        "at most {window} SENDs without their receipt, every message acknowledged, {window}"
        " outstanding"
    ),
    "receipts": "as window, and every ACK asks for a receipt",
    "backlog": (
        "SENDs without receipts first, the consumer subscribes when all are confirmed, ack:auto"
    ),
}


def job_for(broker: Broker, scenario: str, queue: str, options: argparse.Namespace) -> Job:
    """The peers' jobs."""
    windowed = scenario in ("window", "receipts")
    in_flight = options.window if windowed else 0
    if broker.at_most:
        in_flight = broker.at_most
    return Job(
        port=broker.port,
        speech=broker.speech,
        queue=queue,
        messages=options.messages,
        size=options.size,
        in_flight=in_flight,
        acks=windowed,
        ack_receipts=scenario == "receipts",
        durable=options.durable,
        window=options.window if windowed and broker.window else 0,
        backlog=scenario == "backlog",
        patience_s=options.patience,
    )


def main() -> int:
    """See ``comparison.run``."""
    title = (__doc__ or "").splitlines()[0]
    return run(Comparison(title, "reference", SCENARIOS, BROKERS, job_for, work))


if __name__ == "__main__":
    sys.exit(main())
