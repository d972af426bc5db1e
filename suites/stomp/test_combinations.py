"""Options of SUBSCRIBE and SEND, in combinations that cover every pair of options."""

from brokerproof.suites.api import Bench, case, over
from brokerproof.suites.steps import stomp_combinations
from brokerproof.suites.steps.combinations import Row
from brokerproof.suites.steps.stomp_combinations import (
    ARTEMIS,
    ARTEMIS_AUTO,
    RABBITMQ,
    Play,
    Sentences,
)

ARRIVES = {"1.0": "STOMP10-SUBSCRIBE-02", "1.1": "STOMP11-SUB-02", "1.2": "STOMP12-SUB-02"}
AUTO = {"1.0": "STOMP10-SUBSCRIBE-03", "1.1": "STOMP11-SUB-07", "1.2": "STOMP12-SUB-08"}
COMMITS = {"1.0": "STOMP10-SEND-03", "1.1": "STOMP11-SEND-02", "1.2": "STOMP12-SEND-02"}
ONCE = "ARTEMIS-CONCEPTS-queue-1"
SELECTS = "ARTEMIS-STOMP-selector-1"
EXPIRES = "ARTEMIS-EXPIRY-1"
DEFAULT, ZERO = "ARTEMIS-STOMP-window-5", "ARTEMIS-STOMP-window-2"
POSITIVE, NONE = "ARTEMIS-STOMP-window-3", "ARTEMIS-STOMP-window-4"
IN_AUTO = "ARTEMIS-STOMP-READING-window-1"
PREFETCH = "RABBITMQ-STOMP-prefetch-1"
NEEDS = {
    "consumer-window",
    "selectors",
    "queue-semantics",
    "durable-subscriptions",
    "stomp-1.0",
    "stomp-1.1",
    "stomp-1.2",
}


@case(ARRIVES, COMMITS, AUTO, needs={"anycast", "multicast", "transactions"})
@over(
    examples=5,
    always=lambda target: [{"row": row} for row in stomp_combinations.specified("1.0").rows()],
    row=stomp_combinations.specified("1.0").drawn(),
)
def test_options_of_stomp_work_together(target: Bench, version: str, row: Row) -> None:
    """Whatever combination of STOMP options SUBSCRIBE and the SENDs use, a subscription gets each
    message once, and so does another subscription of its connection. Messages sent in a transaction
    arrive after its COMMIT, and messages that a subscription in auto mode got are consumed."""
    sentences = Sentences(ARRIVES[version], commits=COMMITS[version], auto=AUTO[version])
    Play(target, {**row, stomp_combinations.VERSION: version}, sentences).run()


@case(ONCE, SELECTS, EXPIRES, DEFAULT, ZERO, POSITIVE, NONE, needs=NEEDS)
@over(
    examples=20, always=lambda target: [{"row": row} for row in ARTEMIS.rows()], row=ARTEMIS.drawn()
)
def test_headers_of_artemis_work_together(target: Bench, row: Row) -> None:
    """Whatever combination of headers SUBSCRIBE and SEND use, a subscription gets each unexpired
    message that it selects, as its window allows. Another subscription of the connection, without a
    window header, has the acceptor's window. One scenario: the requirements concern the same
    options."""
    windows = {None: DEFAULT, "-1": NONE, "0": ZERO, "1000": POSITIVE}
    Play(target, row, Sentences(ONCE, windows, SELECTS, EXPIRES)).run()


@case(IN_AUTO, needs=NEEDS)
@over(
    examples=5,
    always=lambda target: [{"row": row} for row in ARTEMIS_AUTO.rows()],
    row=ARTEMIS_AUTO.drawn(),
)
def test_a_window_does_not_stop_a_subscription_in_mode_auto(target: Bench, row: Row) -> None:
    """A subscription in auto mode asks for a window smaller than its messages and gets them all."""
    Play(target, row, Sentences(IN_AUTO, dict.fromkeys(("0", "1000"), IN_AUTO))).run()


@case(PREFETCH, needs={"prefetch-count", "stomp-1.2"})
@over(
    examples=20,
    always=lambda target: [{"row": row} for row in RABBITMQ.rows()],
    row=RABBITMQ.drawn(),
)
def test_a_prefetch_count_is_of_its_subscription(target: Bench, row: Row) -> None:
    """Whatever combination of headers SUBSCRIBE and SEND use, a subscription gets each message
    as its prefetch-count allows. Another subscription of the connection, without prefetch-count,
    has no limit."""
    Play(target, row, Sentences(PREFETCH, dict.fromkeys((None, "1", "2"), PREFETCH))).run()
