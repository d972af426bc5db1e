"""Starts a target and finds out what its file does not state: login and virtual hosts, family and
release, addresses with low limits, and the dialect."""

import dataclasses
from pathlib import Path

from brokerproof.harness.inference import own_addresses
from brokerproof.harness.inference.dialect import is_unknown
from brokerproof.harness.inference.dialects import infer_dialects
from brokerproof.harness.inference.premises import unmet_premises
from brokerproof.harness.targets.external.target import AddressTarget
from brokerproof.harness.targets.target import Target, TargetFacts


def complete(target: Target, facts: TargetFacts, seed: int) -> TargetFacts:
    """Complete the ``facts`` about a started target as far as possible. Raises
    :class:`~brokerproof.harness.targets.failure.SetUpFailed`."""
    own_addresses.complete(target, seed)
    if not isinstance(target, AddressTarget):
        return facts
    if not is_unknown(target):
        unmet = unmet_premises(target, seed)
        target.identity = dataclasses.replace(target.identity, unmet=unmet)
        return facts
    dialect = infer_dialects(target, seed)
    target.identity = dialect.applied(target.identity)
    return dataclasses.replace(facts, dialect=tuple(dialect.sentences))


def begin(target: Target, folder: Path, seed: int = 1) -> TargetFacts:
    """Start ``target`` and :func:`complete` its facts; ``folder`` is for logs. Raises
    :class:`~brokerproof.harness.targets.failure.SetUpFailed`."""
    return complete(target, target.start(folder), seed)
