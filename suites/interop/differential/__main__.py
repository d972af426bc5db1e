"""Differential search plays the same generated conversations on real brokers and on the reference
with the profile of their family: ``python -m brokerproof.suites.interop.differential``.

A conversation is a few frames of a grammar with deliberate mistakes. For each frame the transcript
has everything that the broker sent until it answered or fell silent, except details that brokers
may choose. The first frame at which two transcripts differ, with its two answers, is the key of a
cluster. A conversation that differs is repeated with longer waits. A cluster that the grammar does
not explain is a failure.
"""

import json
import random
import secrets
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

import click

from brokerproof.harness.targets import target_file
from brokerproof.harness.targets.sockets import SocketTarget
from brokerproof.suites.interop.differential import amqp10, stomp
from brokerproof.suites.interop.differential.clusters import (
    Cluster,
    explanation_of,
    search,
    sentences,
)
from brokerproof.suites.interop.differential.grammar import Conversation, Grammar, Player

GRAMMARS = {"amqp10": amqp10.GRAMMAR, "stomp": stomp.GRAMMAR}
REFERENCES = {
    "artemis": "reference-real",
    "activemq": "reference-activemq-real",
    "rabbitmq": "reference-rabbitmq-real",
}
REAL = list(REFERENCES)
"""The reference with the profile of its family, by real broker."""


@contextmanager
def started(grammar: Grammar, name: str, folder: Path) -> Iterator[Player]:
    """Start the broker of a target file; return it and a player of conversations."""
    broker = target_file.load(name)
    assert isinstance(broker, SocketTarget)
    broker.start(folder)
    try:
        yield grammar.player(broker)
    finally:
        broker.stop()


@click.command(context_settings={"show_default": True})
@click.option("--seed", default=1)
@click.option("--conversations", type=click.IntRange(1), default=5000)
@click.option("--broker", "brokers", type=click.Choice(REAL), multiple=True, default=REAL)
@click.option("--protocol", type=click.Choice(list(GRAMMARS)), default="stomp")
@click.option("--out", type=click.Path(path_type=Path, file_okay=False), required=True)
def main(seed: int, conversations: int, brokers: tuple[str, ...], protocol: str, out: Path) -> None:
    """Search for disagreements and report those that nothing explains."""
    out.mkdir(parents=True, exist_ok=True)
    grammar, draw = GRAMMARS[protocol], random.Random(seed)
    talks = [grammar.conversation(draw) for _ in range(conversations)]
    clusters: dict[Cluster, Conversation] = {}
    for broker in brokers:
        with (
            tempfile.TemporaryDirectory(prefix="brokerproof-differential-") as name,
            started(grammar, REFERENCES[broker], Path(name)) as reference,
            started(grammar, broker, Path(name)) as real,
        ):
            clusters |= search(
                grammar, broker, (reference, real), talks, f"{seed}.{secrets.token_hex(4)}"
            )
    explained = {cluster: explanation_of(grammar, cluster) for cluster in clusters}
    with (out / "clusters.jsonl").open("w", encoding="utf-8") as rows:
        for cluster, talk in sorted(clusters.items(), key=lambda item: item[0]):
            row = {
                **asdict(cluster),
                "why": explained[cluster],
                "conversation": [step.label for step in talk.steps],
            }
            rows.write(json.dumps(row) + "\n")
    unexplained = [cluster for cluster, why in explained.items() if not why]
    counts = f"{len(clusters)} clusters, {len(unexplained)} unexplained"
    click.echo(f"{conversations} conversations, {counts}")
    for sentence in sentences(unexplained):
        click.echo(sentence)
    sys.exit(bool(unexplained))


if __name__ == "__main__":
    main()
