"""Options of open, attach and transfer, in combinations that cover every pair of options."""

from brokerproof.suites.api import Bench, case, over
from brokerproof.suites.steps.amqp_combinations import ARTEMIS, SPECIFIED, Play, Sentences
from brokerproof.suites.steps.combinations import Row

CREDIT_GIVEN, NONE_WITHOUT_CREDIT = "AMQP10-CREDIT-03", "AMQP10-CREDIT-09"
SETTLED, UNSETTLED = "AMQP10-XFER-10", "AMQP10-XFER-11"
FRAME_SIZE, GONE = "AMQP10-MFS-02", "AMQP10-TERM-08"
SELECTS = "ARTEMIS-FILTER-syntax-1"
SENTENCES = Sentences(CREDIT_GIVEN, NONE_WITHOUT_CREDIT, SETTLED, UNSETTLED, FRAME_SIZE, gone=GONE)


@case(CREDIT_GIVEN, NONE_WITHOUT_CREDIT, SETTLED, UNSETTLED, FRAME_SIZE, GONE, needs={"amqp"})
@over(
    examples=10,
    always=lambda target: [{"row": row} for row in SPECIFIED.rows()],
    row=SPECIFIED.drawn(),
)
def test_options_of_open_attach_and_transfer_work_together(target: Bench, row: Row) -> None:
    """Whatever combination of options its connection, link and transfers use, a receiver gets each
    message once, within its credit, settled as agreed, and in frames that it accepts. So does
    another link of its session. A link without options later gets the unsettled messages, and
    nothing else. One scenario: the requirements concern the same options."""
    Play(target, row, SENTENCES).run()


@case(SELECTS, needs={"amqp", "selectors", "core-filters"})
@over(
    examples=10, always=lambda target: [{"row": row} for row in ARTEMIS.rows()], row=ARTEMIS.drawn()
)
def test_a_filter_selects_whatever_else_a_link_asks_for(target: Bench, row: Row) -> None:
    """Whatever combination of options its connection, link and transfers use, a receiver with a
    filter gets exactly the messages that it selects. A link without options gets the rest."""
    Play(target, row, Sentences(SELECTS, selects=SELECTS, gone=SELECTS)).run()
