"""Options of basic.qos, basic.consume and basic.publish, in combinations that cover every pair."""

from brokerproof.suites.api import Bench, case, over
from brokerproof.suites.steps.amqp091_combinations import TABLE, Play, Sentences
from brokerproof.suites.steps.combinations import Row

LIMIT, REPLENISHED, NOT_FOR_NO_ACK = "AMQP091-QOS-01", "AMQP091-QOS-02", "AMQP091-QOS-03"
EXCLUSIVE_CONSUMER = "AMQP091-CONS-02"


@case(LIMIT, REPLENISHED, NOT_FOR_NO_ACK, EXCLUSIVE_CONSUMER, needs={"amqp091"})
@over(examples=10, always=lambda target: [{"row": row} for row in TABLE.rows()], row=TABLE.drawn())
def test_options_of_consume_and_publish_work_together(target: Bench, row: Row) -> None:
    """Whatever the combination of its options and those of the messages, a consumer gets each
    message once and holds as many as its prefetch allows. So does a consumer of another channel,
    and an exclusive consumer stays alone. One scenario: the requirements concern the same
    options."""
    sentences = Sentences(LIMIT, REPLENISHED, NOT_FOR_NO_ACK, EXCLUSIVE_CONSUMER)
    Play(target, row, sentences).run()
