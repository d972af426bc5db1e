"""Infers a broker's dialect of each of its protocols from its address alone."""

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor

from brokerproof.harness.inference.amqp091_dialect import infer_amqp091
from brokerproof.harness.inference.amqp_dialect import infer_amqp
from brokerproof.harness.inference.dialect import Dialect, infer_dialect
from brokerproof.harness.targets.target import Target

_BY_CAPABILITY: Mapping[str, Callable[[Target, int], Dialect]] = {
    "stomp": infer_dialect,
    "amqp": infer_amqp,
    "amqp091": infer_amqp091,
}


def infer_dialects(target: Target, seed: int) -> Dialect:
    """Infer the dialects of ``target``, for all its protocols concurrently."""
    asked = [
        infer for name, infer in _BY_CAPABILITY.items() if name in target.identity.capabilities
    ]
    dialect = Dialect()
    with ThreadPoolExecutor(len(asked) or 1) as pool:
        for one in [pool.submit(infer, target, seed) for infer in asked]:
            dialect.add(one.result())
    return dialect
