"""Clusters of disagreements between a broker and the reference, and their explanations."""

import functools
import itertools
import sys
import tomllib
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from brokerproof.suites.interop.differential.grammar import Conversation, Grammar, Player

AT_A_TIME = 8
"""Conversations that run concurrently on one broker: mostly they wait."""


@dataclass(frozen=True, order=True)
class Cluster:
    """Conversations of one version that differ at the same kind of frame in the same way."""

    broker: str
    frame: str
    reference: str
    answer: str
    version: str


def cluster_of(
    grammar: Grammar,
    broker: str,
    talk: Conversation,
    reference: Sequence[str],
    answers: Sequence[str],
) -> Cluster | None:
    """Return the cluster of the first frame with different answers; None if there is none."""
    for step, expected, answer in zip(talk.steps, reference, answers, strict=False):
        if expected != answer:
            if grammar.kind(expected) != grammar.kind(answer):
                expected, answer = grammar.kind(expected), grammar.kind(answer)
            return Cluster(broker, step.label, expected, answer, talk.version)
    return None


def search(
    grammar: Grammar,
    broker: str,
    players: tuple[Player, Player],
    talks: Sequence[Conversation],
    run: str,
) -> dict[Cluster, Conversation]:
    """Return the shortest conversation of each cluster that occurred at least twice."""
    clusters: dict[Cluster, Conversation] = {}
    for patient in (False, True):
        play = functools.partial(_played, talks=talks, run=f"{run}.{patient}", patient=patient)
        with ThreadPoolExecutor(len(players)) as pool:
            references, answers = pool.map(play, players)
        clusters = {}
        for talk, expected, answer in zip(talks, references, answers, strict=True):
            cluster = cluster_of(grammar, broker, talk, expected, answer)
            if cluster is not None and len(talk.steps) < _length(clusters.get(cluster)):
                clusters[cluster] = talk
        talks = list(clusters.values())
    return clusters


def _played(
    player: Player, talks: Sequence[Conversation], run: str, patient: bool
) -> list[list[str]]:
    names = [f"{run}.{number}" for number in range(len(talks))]
    with ThreadPoolExecutor(AT_A_TIME) as pool:
        return list(pool.map(player.play, talks, names, itertools.repeat(patient)))


def _length(talk: Conversation | None) -> int:
    return sys.maxsize if talk is None else len(talk.steps)


def explanation_of(grammar: Grammar, cluster: Cluster) -> str:
    """Return why the answers differ, according to the grammar's explanations; empty if none
    applies. An entry applies to certain brokers, to certain versions (all if it names none), and to
    patterns of frames."""
    for entry in _explanations(grammar.explanations):
        if (
            cluster.broker in entry["brokers"]
            and cluster.version in entry.get("versions", grammar.versions)
            and any(fnmatchcase(cluster.frame, pattern) for pattern in entry["frames"])
            and cluster.reference in _listed(entry["reference"])
            and cluster.answer in _listed(entry["answer"])
        ):
            return str(entry["why"])
    return ""


@functools.cache
def _explanations(path: Path) -> list[dict[str, Any]]:
    entries: list[dict[str, Any]] = tomllib.loads(path.read_text("utf-8"))["cluster"]
    return entries


def _listed(answers: str | list[str]) -> list[str]:
    return [answers] if isinstance(answers, str) else answers


def sentences(clusters: Iterable[Cluster]) -> Iterator[str]:
    """Yield clusters as lines; those that differ only in the version share a line."""
    for (broker, label, reference, answer), alike in itertools.groupby(
        sorted(clusters),
        lambda cluster: (cluster.broker, cluster.frame, cluster.reference, cluster.answer),
    ):
        versions = " ".join(cluster.version for cluster in alike)
        yield f"{broker} {label} ({versions}): reference {reference}, {broker} {answer}"
