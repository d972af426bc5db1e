"""Links of an AMQP 1.0 client: credit, windows, deliveries and their settlement."""

import pytest

from brokerproof.harness.cases.client_trials import Amqp10Trial
from brokerproof.harness.clients.client_event import event_named
from brokerproof.harness.clients.driver import body_of
from brokerproof.harness.oracles import amqp_credit, amqp_deliveries, amqp_windows
from brokerproof.harness.protocols.amqp10.codec import composite
from brokerproof.suites.amqp10.steps import QUIET
from brokerproof.suites.api import Bench, case, seconds, shown
from brokerproof.suites.api.amqp10 import Frame, Link, frame, message
from brokerproof.suites.steps.traces import judge_trace

TRIAL = {"amqp10-client"}
CREDIT = "AMQP10-CREDIT-09"
COUNT_OF_SENDER = "AMQP10-CREDIT-16"
WINDOW = "AMQP10-WIN-02"
DRAINED = "AMQP10-CREDIT-12"
ECHO = "AMQP10-CREDIT-22"
TOO_EARLY = "AMQP10-CREDIT-18"
LAST_COUNT, REPLENISHED = "AMQP10-CREDIT-17", "AMQP10-READING-CREDIT-02"
SETTLED, UNSETTLED = "AMQP10-XFER-10", "AMQP10-XFER-11"
DELIVERY_ID, TAG = "AMQP10-XFER-01", "AMQP10-XFER-04"
OWN_TAGS, FORMAT = "AMQP10-XFER-06", "AMQP10-XFER-07"
ONE, RANGE = "AMQP10-DISP-02", "AMQP10-DISP-06"
ROLE = "AMQP10-DISP-01"
ABORTED = "AMQP10-XFER-18"
CLOSED_TOO = "AMQP10-LINK-08"


def sending(target: Bench, mode: str = "unsettled") -> tuple[Amqp10Trial, Link]:
    """Return a client with a sender, and the harness's end of the link."""
    if mode == "settled":
        target.require_capability("amqp-presettled")
    trial = target.amqp10_client()
    trial.connect()
    return trial, trial.sender(mode=mode)


def receiving(target: Bench, credit: int = 10) -> tuple[Amqp10Trial, Link]:
    """Return a client whose receiver has received a control message, and the harness's end of the
    link."""
    trial = target.amqp10_client()
    trial.connect()
    link = trial.receiver(credit)
    granted(target, trial, link)
    trial.server.deliver(link, b"control")
    target.control(body_of(trial.message()) == b"control", "the control message has another body")
    return trial, link


def granted(target: Bench, trial: Amqp10Trial, link: Link) -> bool:
    """Wait until the client grants credit; return True if it does."""
    target.wait_until(lambda: link.credit > 0 or trial.server.ended is not None, seconds(5))
    return link.credit > 0


def flows_of(trial: Amqp10Trial, link: Link) -> list[Frame]:
    return [flow for flow in trial.server.named("flow") if flow.get("handle") == link.their_handle]


@case(CREDIT, needs=TRIAL)
@pytest.mark.parametrize("mode", ["unsettled", "settled"])
def test_a_sender_keeps_to_its_credit(target: Bench, mode: str) -> None:
    """The application sends nine messages without credit. Then the server grants credit for two,
    and later for three. Exactly that many messages arrive."""
    trial, link = sending(target, mode)
    for number in range(9):
        trial.send(b"%d" % number)
    target.advance(QUIET)
    for credit in (2, 3):
        trial.server.flow(link, link_credit=credit)
        for _ in range(credit):
            trial.server.delivery(link)
        target.advance(QUIET)
    judge_trace(target, trial.server, amqp_credit.credit)


@case(WINDOW, needs=TRIAL)
@pytest.mark.parametrize("size", [1, 1500])
def test_a_sender_keeps_to_the_window(target: Bench, size: int) -> None:
    """The session accepts four transfers, and the application sends three messages of one or
    several transfers. Then the window opens. No more transfers arrive than the window allows, and
    finally all arrive."""
    trial = target.amqp10_client()
    trial.offered["open"], trial.offered["begin"] = {"max-frame-size": 512}, {"incoming-window": 4}
    trial.connect()
    link = trial.sender()
    trial.server.flow(link, link_credit=20)
    for _ in range(3):
        trial.send(b"x" * size)
    target.wait_until(lambda: len(trial.server.named("transfer")) >= 3, seconds(5))
    target.advance(QUIET)
    trial.server.flow(session=link.session, incoming_window=99)
    for _ in range(3):
        trial.server.delivery(link)
    judge_trace(target, trial.server, amqp_windows.windows)


@case(DRAINED, COUNT_OF_SENDER, needs=TRIAL)
def test_a_sender_is_drained(target: Bench) -> None:
    """The server drains five credits of a sender with nothing to send. The sender's flow states
    that none is left. After new credit another message arrives."""
    trial, link = sending(target)
    trial.server.flow(link, link_credit=6)
    trial.send(b"first")
    trial.server.delivery(link, body=b"first")
    seen = len(flows_of(trial, link))
    trial.server.flow(link, drain=True)
    target.wait_until(lambda: len(flows_of(trial, link)) > seen and not link.credit, seconds(5))
    judge_trace(target, trial.server, amqp_credit.drains, amqp_credit.counts)
    trial.server.flow(link, link_credit=1, drain=False)
    trial.send(b"next")
    trial.server.delivery(link, body=b"next")


@case(ECHO, needs=TRIAL)
@pytest.mark.parametrize("role", ["sender", "receiver"])
def test_a_flow_with_echo_is_answered(target: Bench, role: str) -> None:
    """On a flow with echo on a link the client sends a flow within five seconds."""
    trial, link = sending(target) if role == "sender" else receiving(target)
    target.advance(QUIET)
    seen = len(trial.server.named("flow"))
    trial.server.flow(link, echo=True, link_credit=3 if role == "sender" else link.credit)
    target.wait_until(lambda: len(trial.server.named("flow")) > seen, seconds(5))
    more = len(trial.server.named("flow")) - seen
    target.record_finding(
        ECHO, more > 0, f"flows in answer to one with echo=true: {more}; expected at least 1"
    )


@case(TOO_EARLY, needs=TRIAL)
def test_no_delivery_count_before_that_of_the_server(target: Bench) -> None:
    """A receiver attaches, and the server answers a second later. A flow that the client sends
    earlier has no delivery-count. Then the client grants credit and gets a message."""
    trial = target.amqp10_client()
    trial.offered["attach"] = {"initial-delivery-count": 0}
    trial.connect()
    trial.server.withheld = {"attach"}
    trial.driver.done("receiver", link="in", address="q", credit=5)
    attach = trial.server.received("attach")
    target.advance(seconds(1))
    counts = [flow.get("delivery-count") for flow in trial.server.named("flow")]
    trial.server.answer(attach)
    early = [count for count in counts if count is not None]
    words = (
        f"flows before the server's attach had the delivery-counts {shown(counts)}; expected none"
    )
    target.record_finding(TOO_EARLY, not early, words)


@case(LAST_COUNT, REPLENISHED, needs=TRIAL)
@pytest.mark.parametrize("initial", [0, 2**32 - 3])
def test_credit_is_replenished(target: Bench, initial: int) -> None:
    """A receiver has a window of two, and the server's delivery-count starts at an arbitrary value.
    Twelve messages arrive and are accepted. The client renews its credit each time, and no flow
    after a message has a delivery-count that the server never had."""
    trial = target.amqp10_client()
    trial.offered["attach"] = {"initial-delivery-count": initial}
    trial.connect()
    link = trial.receiver(credit=2)
    target.control(granted(target, trial, link), "the client grants no credit")
    seen = 0
    for number in range(12):
        comes = granted(target, trial, link)
        words = f"after {number} messages, the client granted {'' if comes else 'no '}credit"
        target.record_finding(REPLENISHED, comes, words)
        if not comes:
            break
        trial.server.deliver(link)
        handed_out = trial.message().detail["number"]
        seen = seen or len(flows_of(trial, link))
        trial.driver.done("settle", message=handed_out, outcome="accepted")
    counts = [flow.get("delivery-count") for flow in flows_of(trial, link)[seen:]]
    known = [(initial + sent) % 2**32 for sent in range(13)]
    wrong = [count for count in counts if count not in known]
    target.record_finding(LAST_COUNT, not wrong, f"from {initial} on, flows stated {shown(counts)}")


def judge_transfers(target: Bench, mode: str, proves: str) -> None:
    """Judge the fields of three messages on a link; ``mode`` decides whether the sender settles
    them."""
    trial, link = sending(target, mode)
    trial.server.withheld = {"transfer"}
    trial.server.flow(link, link_credit=9)
    agreed = trial.server.named("attach")[0].get("snd-settle-mode", 2)
    target.control(agreed == (mode == "settled"), f"snd-settle-mode is {agreed}")
    for number in range(3):
        trial.send(b"%d" % number)
        settled = trial.server.delivery(link).settled
        fine = settled == (mode == "settled")
        target.record_finding(proves, fine, f"delivery {number}: settled is {shown(settled)}")
    judge_trace(target, trial.server, amqp_deliveries.delivery_ids)


@case(UNSETTLED, DELIVERY_ID, TAG, OWN_TAGS, FORMAT, needs=TRIAL)
def test_deliveries_are_named_and_unsettled(target: Bench) -> None:
    """On an unsettled link, three messages are unsettled and each have an id, a unique tag and a
    format.

    One scenario: the fields of transfers.
    """
    judge_transfers(target, "unsettled", UNSETTLED)


@case(SETTLED, needs=TRIAL)
def test_deliveries_of_a_settled_link_are_settled(target: Bench) -> None:
    """On a link with a settling sender, three messages are settled."""
    judge_transfers(target, "settled", SETTLED)


@case(ONE, RANGE, needs=TRIAL)
def test_the_application_learns_each_outcome(target: Bench) -> None:
    """The server settles one of six messages, then three as a range, then the other two, each time
    with an outcome. The application learns exactly these outcomes."""
    trial, link = sending(target)
    trial.server.withheld = {"transfer"}
    trial.server.flow(link, link_credit=9)
    ids = []
    for number in range(6):
        trial.send(b"%d" % number)
        ids.append(trial.server.delivery(link).id)
    outcomes = {2: "rejected", 3: "accepted", 1: "released", 6: "modified"}
    for number, outcome in outcomes.items():
        first, last = ids[number - 1], ids[4] if number == 3 else None
        state = composite(outcome)
        trial.server.disposition(first, state, last=last, channel=link.session.channel)
    expected = {**outcomes, 4: "accepted", 5: "accepted"}
    learned: dict[int, str] = {}

    def complete() -> bool:
        for told in trial.driver.reports("settled"):
            learned[told.detail["number"]] = told.detail["outcome"]
        return len(learned) == 6

    target.wait_until(complete, seconds(5))
    for proves, numbers in ((ONE, (1, 2, 6)), (RANGE, (3, 4, 5))):
        fine = all(learned.get(number) == expected[number] for number in numbers)
        target.record_finding(proves, fine, f"the application got {shown(learned)}")


@case(ONE, ROLE, needs=TRIAL)
@pytest.mark.parametrize("outcome", ["accepted", "rejected", "released"])
def test_one_delivery_is_settled(target: Bench, outcome: str) -> None:
    """The application settles the third of four messages. The disposition has the requested outcome
    and names only that message."""
    trial, link = receiving(target)
    ids = [trial.server.deliver(link, b"%d" % number) for number in range(3)]
    trial.driver.expect(event_named("message", number=4))
    trial.driver.done("settle", message=3, outcome=outcome)
    one = trial.server.received("disposition", proves=ONE)
    covered = (one["first"], one.get("last", one["first"]))
    target.record_finding(
        ONE,
        covered == (ids[1], ids[1]) and one.kind("state") == outcome,
        f"delivery {ids[1]} was settled by {one.brief()}",
    )
    more = trial.server.watch_for(frame("disposition"), within=seconds(1))
    repeated = more is None or (more["first"], more.get("last", more["first"])) == covered
    target.record_finding(ONE, repeated, f"{more.brief() if more else 'nothing'} followed")
    judge_trace(target, trial.server, amqp_deliveries.settlement)


@case(ABORTED, needs=TRIAL)
@pytest.mark.parametrize("part", [9, 99])
def test_an_aborted_message_is_not_handed_out(target: Bench, part: int) -> None:
    """A message arrives in many transfers, then one that the server aborts halfway or after its
    last byte, then a third. The application gets the first and the third, whole."""
    trial, link = receiving(target)
    trial.server.deliver(link, b"many transfers", size=3)
    target.control(body_of(trial.message()) == b"many transfers", "the control has another body")
    trial.server.transfer(link, message(b"aborted")[:part], more=True)
    trial.server.transfer(link, aborted=True)
    trial.server.deliver(link, b"next")
    got = body_of(trial.driver.expect(event_named("message"), proves=ABORTED))
    target.record_finding(ABORTED, got == b"next", f"the application got {got!r}")


@case(CLOSED_TOO, needs=TRIAL)
@pytest.mark.parametrize("error", [None, "amqp:resource-deleted"])
def test_a_link_that_the_server_closes_is_given_up(target: Bench, error: str | None) -> None:
    """The server closes one of two links, with an error or without. The client sends a detach with
    closed, the application learns of it, and the other link gets a message."""
    trial, link = receiving(target)
    other = trial.receiver(link="other")
    granted(target, trial, other)
    trial.server.detach(link, answered=False, error=error)
    detach = trial.server.received("detach", proves=CLOSED_TOO)
    fine = detach.get("closed") is True and detach["handle"] == link.their_handle
    target.record_finding(CLOSED_TOO, fine, f"the detach was answered with {detach.brief()}")
    trial.driver.expect(event_named("link-closed", link="in"))
    trial.server.deliver(other, b"beside")
    trial.driver.expect(event_named("message", body="beside"))
