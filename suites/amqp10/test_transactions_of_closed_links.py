"""Transactions that outlive the links of their messages: a consumer closes before the discharge.

The consumer settled its messages when it accepted them, so its link has nothing left to settle when
it closes. Only the transaction decides the fate of these messages: a commit applies the outcome, a
rollback the source's default-outcome. Another consumer waits throughout and notices a message that
returns too early or never.
"""

from collections.abc import Mapping, Sequence
from itertools import product

from hypothesis import strategies as st

from brokerproof.harness.protocols.amqp10 import codec
from brokerproof.suites.amqp10.steps import bodies, collect, fill, numbered, over_habits
from brokerproof.suites.amqp10.transaction_steps import OUTCOMES, SEEN_AGAIN, control, within
from brokerproof.suites.api import Bench, Target, case, listed
from brokerproof.suites.api.amqp10 import Frame, Node
from brokerproof.suites.steps import small_addresses
from brokerproof.suites.steps.queue_model import MEMORY, place_names, places

RETIRED_ON_COMMIT = "AMQP10-TXN-09"
DEFAULT_OUTCOME_ON_ROLLBACK = "AMQP10-TXN-13"

WAYS = ("detach", "end")
"""How the consumer closes: only its link, or the session of its link."""
ACROSS_SESSIONS = "amqp:multi-ssns-per-txn"
"""The coordinator's capability for transactions with work on several sessions."""


def situations(target: Target) -> tuple[str, ...]:
    """Return the places, ways and ends from which the examples are drawn."""
    at = tuple(f"at {place}" for place in place_names(target))
    return (*at, *(f"closed by {way}" for way in WAYS), "committed", "rolled back")


def corners(target: Target) -> list[Mapping[str, object]]:
    """Commit and roll back at each place, in each way."""
    return [
        {"place": place, "accepted": [True, False, True], "way": way, "fail": fail}
        for place in place_names(target)
        for way, fail in product(WAYS, (False, True))
    ]


@case(RETIRED_ON_COMMIT, DEFAULT_OUTCOME_ON_ROLLBACK, needs=SEEN_AGAIN)
@over_habits(
    examples=16,
    always=corners,
    situations=situations,
    place=places,
    accepted=st.lists(st.booleans(), min_size=1, max_size=5).filter(any),
    way=st.sampled_from(WAYS),
    fail=st.booleans(),
)
def test_outcomes_in_a_transaction_outlive_their_link(
    target: Bench, place: str, accepted: list[bool], way: str, fail: bool
) -> None:
    """A receiver accepts some of its messages in a transaction, settled, and releases the rest. Its
    link or session closes while another consumer waits. After a commit that consumer gets only the
    released messages; after a rollback it gets all, if the source's default-outcome returns
    them."""
    node = target.node() if place == MEMORY else small_addresses.node(target, place)
    sent = numbered(len(accepted), 1500)
    fill(target, node, sent)
    peer = target.amqp()
    coordinator = control(target, peer)
    id = coordinator.declare()
    assert coordinator.link.answer is not None
    if way == "end" and ACROSS_SESSIONS not in _capabilities(coordinator.link.answer):
        target.record_not_applicable(target.cited, f"the coordinator lacks {ACROSS_SESSIONS}")
        target.reached("closed by end")
        return
    other = peer.begin(1) if way == "end" else peer.session
    link = peer.receiver(node, session=other, source=_releasing(node), credit=len(sent))
    held = collect(target, peer, link, len(sent), quiet=0)
    target.control(bodies(held) == sent, f"{len(held)} of {len(sent)} messages arrived")
    for delivery, is_accepted in zip(held, accepted, strict=True):
        peer.disposition(delivery, within(id, "accepted") if is_accepted else "released")
    assert link.answer is not None
    default = codec.name_of(
        codec.fields_of(link.answer.fields.get("source")).get("default-outcome")
    )
    if way == "detach":
        peer.detach(link)
    else:
        peer.end(other)
    peer.settle()
    target.reached(f"at {place}")
    target.reached(f"closed by {way}")
    target.reached("rolled back" if fail else "committed")
    heir = target.amqp()
    inheritance = heir.receiver(node, credit=len(sent) + 10)
    heir.settle()
    coordinator.discharge(id, fail)
    released = [body for body, is_accepted in zip(sent, accepted, strict=True) if not is_accepted]
    if fail and default not in ("released", "modified"):
        target.record_not_applicable(
            DEFAULT_OUTCOME_ON_ROLLBACK, f"the broker's attach has the default-outcome {default}"
        )
        return
    expected = sent if fail else released
    received = bodies(collect(target, heir, inheritance, len(expected)))
    target.record_finding(
        DEFAULT_OUTCOME_ON_ROLLBACK if fail else RETIRED_ON_COMMIT,
        sorted(received) == expected,
        f"after {accepted.count(True)} of {len(sent)} messages were accepted in a transaction,"
        f" {way} of their link and {'rollback' if fail else 'commit'}, the other consumer got"
        f" {listed(received)}; expected {listed(expected)}",
    )


def _releasing(node: Node) -> object:
    """Return a source whose default-outcome is released."""
    source = {
        "address": node.address,
        "capabilities": node.capabilities or None,
        "default-outcome": codec.composite("released"),
        "outcomes": OUTCOMES,
    }
    return codec.composite("source", source)


def _capabilities(attach: Frame) -> Sequence[str]:
    """Return the capabilities of the target in a coordinator's attach, whether one or several."""
    capabilities = attach.part("target").get("capabilities") or ()
    return [capabilities] if isinstance(capabilities, str) else list(map(str, capabilities))
