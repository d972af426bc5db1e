"""Redelivery of messages whose consumer has ended, and browsers."""

from hypothesis import strategies as st

from brokerproof.suites.api import PATIENCE, Bench, CloseHow, case, listed, over, seconds, shown
from brokerproof.suites.api.openwire import dispatch
from brokerproof.suites.openwire.steps import OPENWIRE, QUIET, fresh_queue, number_of, publish, take

RESENT = "OPENWIRE-REDELIVERY-1"
BROWSED = "OPENWIRE-BROWSE-1"
REMOVED, HELD = "OPENWIRE-REMOVE-1", "OPENWIRE-MSGACK-2"
UNKNOWN = -2
"""The field of a RemoveInfo that does not state what was delivered."""
LOST, SILENT = "its connection is lost", "it ends and tells nothing"
SENT = 6
ENDS = "consumer", "session", "connection"


@case(RESENT, needs={OPENWIRE})
@over(
    examples=16,
    always=lambda target: [
        {"rounds": [(4, 2), (6, LOST), (3, 0), (5, SILENT)], "what": what} for what in ENDS
    ],
    rounds=st.lists(
        st.tuples(
            st.integers(1, SENT), st.one_of(st.integers(0, SENT), st.sampled_from([LOST, SILENT]))
        ),
        min_size=1,
        max_size=4,
    ),
    what=st.sampled_from(ENDS),
)
def test_what_is_resent_says_so(
    target: Bench, rounds: list[tuple[int, int | str]], what: str
) -> None:
    """Consumers in turn hold some messages of a queue, acknowledge none, and end, alone or with
    their session or connection. Each names the last message that its client saw, names none, or
    loses its connection. A message's redelivery counter is the number of its consumers that saw it
    or did not say."""
    place = fresh_queue(target)
    publish(target.openwire(), place, SENT)
    resent = dict.fromkeys(range(SENT), 0)
    for limit, end in [*rounds, (SENT, LOST)]:
        peer = target.openwire()
        consumer = peer.open_consumer(place, prefetch=limit)
        held = take(target, peer, limit, consumer)
        target.control(len(held) == limit, f"{limit} messages should arrive; {len(held)} did")
        for one in held:
            told, due = one["redeliveryCounter"], resent[number_of(one)]
            detail = f"{shown(rounds)}, {what}: {number_of(one)}, resent {due} times, says {told}"
            target.record_finding(RESENT, told == due, detail)
        seen = held[:end] if isinstance(end, int) else held
        for one in seen:
            resent[number_of(one)] += 1
        if end == LOST:
            peer.close_socket(CloseHow.RESET)
            continue
        last = UNKNOWN
        if isinstance(end, int):
            last = seen[-1]["message"]["messageId"]["brokerSequenceId"] if seen else -1
        ends = dict(zip(ENDS, (consumer, peer.session(), peer.connection), strict=True))
        peer.request("RemoveInfo", {"objectId": ends[what], "lastDeliveredSequenceId": last})


@case(REMOVED, HELD, needs={OPENWIRE})
@over(
    examples=8,
    always=lambda target: [
        {"what": what, "limit": limit, "waiting": waiting}
        for what in ("consumer", "session")
        for limit, waiting in ((0, 4), (2, 4), (9, 0))
    ],
    what=st.sampled_from(["consumer", "session"]),
    limit=st.integers(0, 9),
    waiting=st.integers(0, 9),
)
def test_what_is_removed_gets_no_message(
    target: Bench, what: str, limit: int, waiting: int
) -> None:
    """A consumer of a queue with waiting messages is removed, alone or with its session. It gets
    none of the messages that are published a second later. Another consumer gets all messages."""
    place, publisher, peer = fresh_queue(target), target.openwire(), target.openwire()
    publish(publisher, place, waiting)
    consumer = peer.open_consumer(place, prefetch=limit)
    held = take(target, peer, min(limit, waiting), consumer)
    peer.remove(consumer if what == "consumer" else peer.session())
    target.advance(seconds(1))
    peer.dispatched()
    publish(publisher, place, 2)
    stray = take(target, peer, 0, consumer)
    detail = (
        f"with a limit of {limit} its {what} was removed; then {len(stray)} of 2 messages arrived"
    )
    target.record_finding(REMOVED, not stray, detail)
    got = take(target, publisher, waiting + 2, publisher.open_consumer(place))
    detail = f"{len(held)} of {waiting + 2} were held by it; another consumer got {len(got)}"
    target.record_finding(HELD, len(got) == waiting + 2, detail)


@case(BROWSED, needs={OPENWIRE})
@over(
    examples=12,
    always=lambda target: [{"limit": 2, "waiting": 7, "selects": False}],
    limit=st.integers(1, 9),
    waiting=st.integers(0, 9),
    selects=st.sampled_from([False, False, True]),
)
def test_who_browses_sees_all_and_takes_none(
    target: Bench, limit: int, waiting: int, selects: bool
) -> None:
    """A browser reads the waiting messages of a queue, with or without a selector, and acknowledges
    them. It receives each message once, in order, and then the end of the list. The next consumer
    gets all of them, as first deliveries."""
    place, publisher, peer = fresh_queue(target), target.openwire(), target.openwire()
    publish(publisher, place, waiting)
    half = waiting // 2 if selects else 0
    selector = f"number >= {half}" if selects else None
    expected = list(range(half, waiting))
    browser = peer.open_consumer(place, prefetch=limit, browser=True, selector=selector)
    received: list[int] = []
    while True:
        one = peer.expect(dispatch(browser), within=PATIENCE, proves=BROWSED)
        if one["message"] is None:
            break
        received.append(number_of(one))
        peer.ack(one)
    words = (
        f"at {waiting} messages, a browser with a limit of {limit} and selector {shown(selector)}"
    )
    target.record_finding(BROWSED, received == expected, f"{words} was shown {listed(received)}")
    peer.expect_nothing(for_=QUIET, proves=BROWSED, why="it received the end of the list")
    peer.remove(browser)
    got = take(target, publisher, waiting, publisher.open_consumer(place))
    come = [(number_of(one), one["redeliveryCounter"]) for one in got]
    detail = f"{words}; then {shown(come)} arrived, numbers with the times they were resent"
    target.record_finding(BROWSED, come == [(n, 0) for n in range(waiting)], detail)
