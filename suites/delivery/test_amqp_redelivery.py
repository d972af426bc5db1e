"""Messages returned by AMQP consumers regain their positions and count failed attempts."""

from itertools import cycle, groupby
from operator import itemgetter

from hypothesis import strategies as st

from brokerproof.harness.protocols.amqp10 import codec
from brokerproof.suites.amqp10.steps import bodies, collect, fill, numbered, over_habits
from brokerproof.suites.api import Bench, CloseHow, case, listed

FAILED_ATTEMPTS = "AMQP10-MSG-09"

BACK = "ARTEMIS-REDELIVERY-back-1"
FIFO = "ARTEMIS-GROUPING-fifo-1"
STATES = {
    "accepted": codec.composite("accepted"),
    "released": codec.composite("released"),
    "failed": codec.composite("modified", delivery_failed=True),
}
FATES = (*STATES, "kept")


@case(BACK, FIFO, FAILED_ATTEMPTS, needs={"amqp", "amqp-redelivery", "queue-semantics"})
@over_habits(
    examples=60,
    fates=st.lists(st.sampled_from(FATES), min_size=1, max_size=8),
    times=st.sampled_from([1, 1, 1, 6]),
    waiting=st.integers(0, 4),
    order=st.permutations(list(range(8))),
    how=st.sampled_from(["detach", "end", "close", CloseHow.EOF, CloseHow.RESET]),
    ranges=st.booleans(),
    beside=st.integers(0, 2),
    always=lambda target: [
        {"fates": fates, "times": times, "waiting": 1, "order": [*range(8)], "how": "detach"} | more
        for fates, times in ((["released"], 3), (["kept"], 3), (["released", "kept"], 30))
        for more in ({"ranges": True, "beside": 2}, {"ranges": False, "beside": 0})
    ],
)
def test_what_is_given_back_goes_to_its_place(
    target: Bench,
    fates: list[str],
    times: int,
    waiting: int,
    order: list[int],
    how: str,
    ranges: bool,
    beside: int,
) -> None:
    """A consumer accepts, releases or fails up to sixty of its messages, one by one or in groups of
    one outcome, keeps the rest and leaves; other consumers may be attached without credit. The next
    consumer gets all but the accepted messages, in the order of sending, each with its number of
    failed attempts. One scenario: position, order and count belong to the same deliveries."""
    node, fates = target.node(), fates * times
    count = len(fates)
    sent = numbered(count + waiting)
    fill(target, node, sent)
    peer, idle = target.amqp(), target.amqp()
    for _ in range(beside):
        idle.receiver(node)
    link = peer.receiver(node, credit=count)
    got = collect(target, peer, link, count, quiet=0)
    target.control(
        bodies(got) == sent[:count], f"{len(got)} of {count} messages arrived; {peer.instead()}"
    )
    fate = dict(zip(sent, fates, strict=False))
    by_fate = groupby(got, key=lambda delivery: fate[delivery.message.body])
    one_by_one = sorted(zip(cycle(order), got, strict=False), key=itemgetter(0))
    groups = [list(group) for _, group in by_fate] if ranges else [[one] for _, one in one_by_one]
    for first, *_, last in (group * 2 for group in groups):
        if (state := STATES.get(fate[first.message.body])) is not None:
            peer.disposition(first, state, last=last.id)
    peer.settle()
    match how:
        case "detach":
            peer.detach(link)
        case "end":
            peer.end()
        case "close":
            peer.close()
        case _:
            peer.close_socket(CloseHow(how))
    expected = [body for body in sent if fate.get(body) != "accepted"]
    other = target.amqp()
    received = collect(target, other, other.receiver(node, credit=len(sent) + 1), len(expected))
    arrived = bodies(received)
    if arrived != expected and isinstance(how, CloseHow) and _came_late(arrived, expected, fate):
        # Kept messages arrived after others: either the broker puts them there, or it noticed late
        # that the connection had closed. If they are returned in order, all regain their positions.
        other.close()
        third = target.amqp()
        again = third.receiver(node, credit=len(sent) + 1)
        arrived = bodies(collect(target, third, again, len(expected)))
    label = (
        f"with {', '.join(fates)}{' in ranges' if ranges else ''}, beside {beside} without credit,"
        f" then {how}"
    )
    target.record_finding(
        BACK,
        sorted(bodies(received)) == sorted(expected),
        f"{listed(bodies(received))} arrived again; expected {listed(expected)}; {label}",
    )
    target.record_finding(
        FIFO,
        arrived == expected,
        f"{listed(arrived)} arrived; the order should be {listed(expected)}; {label}",
    )
    failures = {
        delivery.message.body: delivery.message.fields("header").get("delivery-count", 0)
        for delivery in received
    }
    wrong = {body: n for body, n in failures.items() if not _fits(fate.get(body), n)}
    target.record_finding(
        FAILED_ATTEMPTS,
        not wrong,
        f"messages with a wrong delivery-count: {listed(wrong)}; {label}",
    )


def _came_late(arrived: list[bytes], expected: list[bytes], fates: dict[bytes, str]) -> bool:
    """True if the kept messages are in order among themselves and so are the others."""

    def parts(bodies: list[bytes]) -> tuple[list[bytes], list[bytes]]:
        kept = [body for body in bodies if fates.get(body) == "kept"]
        return kept, [body for body in bodies if body not in kept]

    return parts(arrived) == parts(expected)


def _fits(fate: str | None, count: int) -> bool:
    """True if a delivery-count is consistent with a message's outcome. A broker may or may not
    count a lost connection as an attempt."""
    if fate == "kept":
        return count in (0, 1)
    return count == (1 if fate == "failed" else 0)
