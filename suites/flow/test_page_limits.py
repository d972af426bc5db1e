"""Addresses with limited pages: page-limit-bytes, page-limit-messages, page-full-policy.

A broker may write pages after its answer to the producer, so the limits are judged with bounds on
both sides. It is certain that every accepted message is kept, that later messages are refused or
dropped, and that consumed messages make room again.
"""

from hypothesis import strategies as st

from brokerproof.suites.api import PATIENCE, Bench, case, ms, over
from brokerproof.suites.api.amqp10 import Node
from brokerproof.suites.steps import paging, small_addresses
from brokerproof.suites.steps.paging import brief
from brokerproof.suites.steps.small_addresses import (
    PAGED_MESSAGES,
    limit_of,
    page_limit_of,
    page_of,
)

BYTES = "ARTEMIS-PAGING-14"
COUNT = "ARTEMIS-PAGING-15"
NEEDS = {"amqp", "address-full", "admin", "paging", "page-limits"}
SLACK = 2
"""Unfinished pages at a check: the one being written, and a newly opened one."""
PACE = ms(25)
"""Pause between messages near the limit."""


def fill(
    target: Bench, place: Node, size: int, bounds: tuple[int, int], policy: str
) -> list[str | None]:
    """Send messages of ``size`` bytes, each after the answer to the previous one, until one is
    refused or a few more than should fit were sent (three times as many if the broker drops nothing
    after the answer). Return their outcomes. Near the limit, pause so that pages can be written."""
    peer, link = small_addresses.producer(target, place)
    states: list[str | None] = []
    most = bounds[1] * (3 if policy == "fail" or target.virtual else 1) + 3
    while len(states) < most and "rejected" not in states:
        if len(states) > bounds[0] - SLACK:
            target.advance(PACE)
        states.append(
            small_addresses.send(target, peer, link, small_addresses.body(len(states), size))
        )
    return states


def taken_again(target: Bench, place: Node, policy: str) -> bool:
    """True if a message is accepted now or soon: brokers clean up in the background."""
    peer, link = small_addresses.producer(target, place)
    deadline = target.now() + 3 * PATIENCE
    while target.now() < deadline:
        state = small_addresses.send(target, peer, link, small_addresses.body(0, 300))
        if state == "accepted" and (
            policy == "fail" or small_addresses.drain_queue(target, place, 0)
        ):
            return True
        target.advance(PATIENCE // 20)
    return False


def bounded(
    target: Bench, requirement: str, label: str, count: int, bounds: tuple[int, int]
) -> None:
    """Judge a count. An excess is allowed if the broker writes pages only after answering."""
    if count <= bounds[1]:
        target.judge_count(requirement, label, count, bounds, "messages")
    else:
        detail = f"{label}: {count}; expected {bounds[0]} to {bounds[1]}"
        target.record_finding(
            requirement, False, detail, uncertain="pages may be written after the answer"
        )


def limited(
    target: Bench, requirement: str, place: Node, policy: str, size: int, bounds: tuple[int, int]
) -> None:
    """Judge whether an address accepts as many messages as ``bounds`` allow, then refuses or drops
    later ones, and keeps those it accepted."""
    admin = target.admin()
    states = fill(target, place, size, bounds, policy)
    if not paging.paged(target, admin, place.address):
        return
    if policy == "fail":
        count = states.count("accepted")
        words = f"the last of {len(states)} messages was {states[-1]}"
        target.record_finding(requirement, states[-1] == "rejected", words)
        bounded(target, requirement, "messages accepted before one was refused", count, bounds)
        received = small_addresses.drain_queue(target, place, count)
    else:
        kinds = sorted(map(str, set(states)))
        detail = f"under DROP, messages were {', '.join(kinds)}"
        target.record_finding(requirement, kinds == ["accepted"], detail)
        received = small_addresses.drain_queue(target, place, bounds[0])
        count = len(received)
        lost = len(states) - count
        detail = f"of {len(states)} messages (three times as many as fit), {lost} were lost"
        if target.virtual:
            target.record_finding(requirement, lost > 0, detail)
        bounded(target, requirement, "messages kept before they were lost", count, bounds)
    words = f"{count} messages were accepted; {brief(received)} arrived"
    target.record_finding(requirement, received == list(range(count)), words)
    again = taken_again(target, place, policy)
    words = f"all messages are consumed; another is {'' if again else 'not '}accepted"
    target.record_finding(requirement, again, words)


@case(BYTES, needs=NEEDS)
@over(
    examples=4,
    always=lambda target: [{"policy": policy, "size": 2000} for policy in ("fail", "drop")],
    policy=st.sampled_from(["fail", "drop"]),
    size=st.sampled_from([1000, 2000, 3000]),
)
def test_pages_fill_up_to_their_limit(target: Bench, policy: str, size: int) -> None:
    """An address under PAGE has page-limit-bytes. It accepts its memory limit plus about that many
    bytes of pages, then refuses or drops messages by page-full-policy; accepted messages arrive in
    order."""
    charged = size + small_addresses.overhead(target)
    # In memory a message takes more than its body, on a page slightly more, and a page is not
    # filled to its last byte.
    least = limit_of(target) // charged + page_limit_of(target) * (page_of(target) // charged)
    most = (
        limit_of(target) // size
        + 1
        + (page_limit_of(target) + SLACK) * (page_of(target) // size + 1)
    )
    limited(
        target, BYTES, small_addresses.node(target, f"pages.{policy}"), policy, size, (least, most)
    )


@case(COUNT, needs=NEEDS)
@over(
    examples=4,
    always=lambda target: [{"policy": policy, "size": 1000} for policy in ("fail", "drop")],
    policy=st.sampled_from(["fail", "drop"]),
    size=st.sampled_from([300, 1000, 4000]),
)
def test_pages_take_so_many_messages(target: Bench, policy: str, size: int) -> None:
    """An address under PAGE has page-limit-messages. It accepts its memory limit plus about that
    many paged messages, then refuses or drops messages by page-full-policy."""
    in_memory = -(-limit_of(target) // (size + small_addresses.overhead(target)))
    bounds = (
        in_memory + PAGED_MESSAGES - 1,
        in_memory + PAGED_MESSAGES + SLACK * (page_of(target) // size + 1),
    )
    limited(
        target,
        COUNT,
        small_addresses.node(target, f"paged-messages.{policy}"),
        policy,
        size,
        bounds,
    )
