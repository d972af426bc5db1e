"""Which messages a settlement covers, in combinations that cover every pair of options."""

from brokerproof.suites.api import Bench, case, over
from brokerproof.suites.steps.combinations import Row
from brokerproof.suites.steps.settlement_combinations import (
    IN_A_TRANSACTION,
    OUTSIDE,
    SETTLING,
    WITHIN,
    play,
)


@case(*SETTLING, needs={"anycast"})
@over(
    examples=5, always=lambda target: [{"row": row} for row in OUTSIDE.rows()], row=OUTSIDE.drawn()
)
def test_what_was_settled_is_gone_and_no_more(target: Bench, version: str, row: Row) -> None:
    """A consumer settles some of its messages; then its connection is lost, or a frame is refused.
    Settled messages are consumed, or refused together, and the rest remains; a refused frame has no
    effect. One scenario: the requirements concern the same options."""
    play(target, version, row, transacts=False)


@case(*IN_A_TRANSACTION, needs={"transactions", "anycast"})
@over(examples=5, always=lambda target: [{"row": row} for row in WITHIN.rows()], row=WITHIN.drawn())
def test_a_transaction_settles_and_sends_as_a_whole(target: Bench, version: str, row: Row) -> None:
    """In a transaction a consumer settles some of its messages and sends one. Then the transaction
    is committed or aborted, the connection is lost, or a frame is refused. Everything takes effect
    with COMMIT, and nothing without. One scenario: the requirements concern the same options."""
    play(target, version, row, transacts=True)
