"""The cost of a byte in a short and in a long stream of smallest frames: ``python
benchmarks/smallest_frames.py``.

Each scenario repeats the smallest legal frames of one kind on one connection, and keeps as much
state as they ask for: messages, deliveries, subscriptions, links, bindings, transactions. A broker
in this process gets ``n`` frames, another one eight times as many. The figure is the processor time
for each byte that the peer sends, and the ratio of both. A cost that is linear in the bytes has a
ratio of about 1, a quadratic one of about 8. The program ends with 1 where a ratio is above the
limit.

``--only TEXT`` takes the scenarios whose names contain it, ``--json`` prints one JSON object. The
clock here measures us; the broker itself gets instants as arguments.
"""

from __future__ import annotations

import gc
import json
import sys
import time

import click

from brokerproof.harness.model.broker_io import BytesReceived, Close
from brokerproof.suites.units.drivers.smallest_frames import SCENARIOS, Feed

FRAMES = 1000
FACTOR = 8
LIMIT = 2.0
ROUNDS = 3


def nanoseconds_a_byte(feed: Feed) -> float:
    """Return the processor time of all that ``feed`` measures, for each byte. Raises
    ``RuntimeError`` if the broker closes the connection."""
    handle, conn = feed.broker.handle, feed.conn
    events = [BytesReceived(conn, piece) for piece in feed.measured]
    gc.collect()
    gc.disable()
    began = time.process_time_ns()
    for event in events:
        effects = handle(0, event)
        if effects and isinstance(effects[-1], Close):
            raise RuntimeError(f"the broker closed the connection: {effects[-4:]}")
    took = time.process_time_ns() - began
    gc.enable()
    return took / sum(map(len, feed.measured))


@click.command(help=(__doc__ or "").partition("\n\n")[2])
@click.option("--frames", default=FRAMES, show_default=True, help="The smaller number of frames.")
@click.option("--rounds", default=ROUNDS, show_default=True, help="The best of so many counts.")
@click.option("--limit", default=LIMIT, show_default=True, help="The largest ratio allowed.")
@click.option("--only", default="", help="Take scenarios whose names contain this.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def main(frames: int, rounds: int, limit: float, only: str, as_json: bool) -> None:
    figures: dict[str, tuple[float, float]] = {}
    for name, prepare in SCENARIOS.items():
        if only.lower() not in name.lower():
            continue
        few, many = (
            min(nanoseconds_a_byte(prepare(count)) for _ in range(rounds))
            for count in (frames, frames * FACTOR)
        )
        figures[name] = few, many
        if not as_json:
            mark = "  <-- not linear" if many / few > limit else ""
            print(f"{name:75} {few:9,.0f} {many:9,.0f} ns/byte  ratio {many / few:5.2f}{mark}")
            sys.stdout.flush()
    if as_json:
        print(json.dumps(figures))
    sys.exit(any(many / few > limit for few, many in figures.values()))


if __name__ == "__main__":
    main()
