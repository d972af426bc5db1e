"""Acceptors for AMQP examples: the usual acceptor, or one whose ids will soon wrap."""

from hypothesis import strategies as st

from brokerproof.suites.api import RECONFIGURABLE, Target, Where

WRAP = 2**32
STARTS = (0, 0, 1, WRAP - 3, WRAP - 2, WRAP - 1, 2**31 - 2, 2**31 - 1, 2**31)
NEAR_WRAP = st.sampled_from(STARTS)
"""Initial serial numbers that soon wrap, or pass the middle of the range."""


def at_the_end(target: Target) -> Where:
    """Return an acceptor on which the second delivery-id wraps; the usual one if this cannot be
    configured.
    """
    acceptor = target.identity.default_amqp_acceptor
    if RECONFIGURABLE not in target.identity.capabilities:
        return Where(acceptor)
    return Where(acceptor, {"acceptor": {"amqp_first_delivery_id": WRAP - 1}})


def wrapping(target: Target) -> st.SearchStrategy[Where]:
    """An acceptor whose transfer-ids, delivery-ids and delivery-counts begin at any number; the
    usual acceptor if this cannot be configured."""
    acceptor = target.identity.default_amqp_acceptor
    if RECONFIGURABLE not in target.identity.capabilities:
        return st.just(Where(acceptor))
    names = ("amqp_first_transfer_id", "amqp_first_delivery_id", "amqp_first_delivery_count")
    return st.fixed_dictionaries(dict.fromkeys(names, NEAR_WRAP)).map(
        lambda drawn: Where(acceptor, {"acceptor": drawn})
    )
