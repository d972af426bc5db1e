"""From a case to a result: proofs and controls, unreached requirements, examples, attempts, and
deviations."""

import dataclasses
import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from hypothesis import strategies as st

from brokerproof.harness.cases.bench import Bench
from brokerproof.harness.cases.case import Case, Over, Where, case, of, registry
from brokerproof.harness.cases.execution import EFFORTS, execute
from brokerproof.harness.catalogue.deviations import Deviation
from brokerproof.harness.model.finding import Measurement
from brokerproof.harness.model.time import ms
from brokerproof.harness.model.verdicts import Seen, Verdict
from brokerproof.harness.protocols.conversation import ControlFailed, Symptom
from brokerproof.harness.protocols.stomp.raw_peer import MESSAGE, frame
from brokerproof.harness.results.records import Result
from brokerproof.harness.targets import target_file
from brokerproof.harness.targets.failure import SetUpFailed
from brokerproof.harness.targets.target import Target
from brokerproof.harness.trace import read
from brokerproof.harness.trace.events import CaseEnded, ExampleStarted, FrameReceived
from brokerproof.suites.units.drivers.executed_case import (
    MAY,
    MUST,
    OTHER_MUST,
    SHOULD,
    VENDOR,
    OtherIdentity,
    RealTimeTwin,
    made,
    result,
    run_of,
    verdicts,
)


def test_a_proof_that_succeeds_is_a_pass_with_what_was_seen(reference: Target) -> None:
    def good(target: Bench) -> None:
        target.stomp("1.2").request("BEGIN", {"transaction": "t"}, proves=MUST)

    found = result(reference, good, MUST)
    assert found.verdict is Verdict.PASS
    assert found.findings[0].detail == "got RECEIPT [receipt-id:r1]"


@pytest.mark.parametrize(("cited", "verdict"), [(MUST, "FAIL"), (SHOULD, "WARN"), (MAY, "NOTE")])
def test_a_proof_that_fails_weighs_by_level(reference: Target, cited: str, verdict: str) -> None:
    def bad(target: Bench) -> None:
        target.stomp("1.2").expect(MESSAGE, within=ms(50), proves=cited)

    found = result(reference, bad, cited)
    assert found.verdict is Verdict(verdict)
    assert found.detail == f"{cited}: expected MESSAGE within 50 ms, but nothing arrived"


def test_a_control_that_fails_is_an_unmet_precondition(reference: Target) -> None:
    def bad(target: Bench) -> None:
        target.stomp("1.2").expect(MESSAGE, within=ms(50))

    found = result(reference, bad, MUST)
    assert found.verdict is Verdict.INCONCLUSIVE
    assert found.detail.startswith("precondition not met: expected MESSAGE within 50 ms")
    assert [finding.seen for finding in found.findings] == [Seen.UNMET]


def test_a_queue_that_the_broker_does_not_declare_is_an_unmet_precondition(
    reference: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    def provide(name: str, routing: object) -> None:
        raise SetUpFailed(f"queue {name} was not declared: INTERNAL_ERROR")

    monkeypatch.setattr(reference, "provide", provide)
    found = result(reference, lambda target: target.node(), MUST)
    assert found.verdict is Verdict.INCONCLUSIVE
    assert "was not declared: INTERNAL_ERROR" in found.detail
    assert [finding.seen for finding in found.findings] == [Seen.UNMET]


def test_what_was_cited_and_never_judged_is_inconclusive(reference: Target) -> None:
    def half(target: Bench) -> None:
        target.record_finding(MUST, True, "seen")

    found = result(reference, half, MUST, SHOULD)
    assert found.verdict is Verdict.INCONCLUSIVE
    assert [finding.seen for finding in found.findings] == [Seen.HELD, Seen.NEVER_REACHED]


def test_a_premise_that_did_not_hold_is_a_note(reference: Target) -> None:
    def processed(target: Bench) -> None:
        target.record_finding(MUST, True, "confirmed")
        target.record_not_applicable(OTHER_MUST, "the broker processed the frame")

    outcome = result(reference, processed, MUST, OTHER_MUST)
    assert outcome.verdict is Verdict.NOTE
    assert [finding.seen for finding in outcome.findings] == [Seen.HELD, Seen.NOT_APPLICABLE]


def test_a_release_is_judged_by_its_own_manual(reference: Target) -> None:
    until_2_33, since_2_34 = "ARTEMIS-STOMP-durable-3", "ARTEMIS-STOMP-durable-5"

    def bad(target: Bench) -> None:
        target.record_finding((until_2_33, since_2_34), False, "the other name counted")

    run = run_of(reference)
    run = dataclasses.replace(run, facts=dataclasses.replace(run.facts, version=""))
    for release, manual, expected in (
        ("2.33", "the manual of 2.33", ["FAIL", "NOTE"]),
        ("2.56.0", "the manual of 2.56.0", ["NOTE", "FAIL"]),
        ("unknown", "the newest manual", ["NOTE", "FAIL"]),
    ):
        identity = dataclasses.replace(reference.identity, manual=release)
        target = OtherIdentity(reference, identity)
        outcome = execute(
            dataclasses.replace(run, target=target), made(bad, until_2_33, since_2_34)
        )
        assert [finding.verdict.value for finding in outcome.findings] == expected
        other = outcome.findings[expected.index("NOTE")]
        assert other.detail.startswith(f"{manual} does not state this; those of ")


def test_a_case_that_does_nothing_is_inconclusive(reference: Target) -> None:
    assert result(reference, lambda target: None, MUST).verdict is Verdict.INCONCLUSIVE


def test_judging_what_is_not_cited_is_our_error(reference: Target) -> None:
    found = result(reference, lambda target: target.record_finding(SHOULD, True, ""), MUST)
    assert found.verdict is Verdict.ERROR
    assert "add it to @case" in found.detail


def test_a_part_that_the_target_does_not_offer_is_a_skip_and_hides_no_violation(
    reference: Target,
) -> None:
    def only_absent(target: Bench) -> None:
        target.peer(acceptor="carrier-pigeon")

    def violation_first(target: Bench) -> None:
        target.record_finding(MUST, False, "seen before")
        only_absent(target)

    found = result(reference, only_absent, MUST)
    assert found.verdict is Verdict.SKIP
    assert "no acceptor 'carrier-pigeon'" in found.detail
    assert [finding.verdict for finding in found.findings] == [Verdict.SKIP]
    found = result(reference, violation_first, MUST, SHOULD)
    assert found.verdict is Verdict.FAIL
    assert {finding.verdict for finding in found.findings} == {Verdict.FAIL, Verdict.SKIP}


def test_a_parameter_that_nobody_stated_is_a_skip_that_names_it(reference: Target) -> None:
    def asks(target: Bench) -> None:
        _ = target.profile.parameters["carrier_pigeon_speed"]

    found = result(reference, asks, MUST)
    assert (found.verdict, found.detail) == (
        Verdict.SKIP,
        "the target states no carrier_pigeon_speed; add it to [parameters] of the target file",
    )


def test_a_crash_of_the_case_is_our_error_and_says_where(reference: Target) -> None:
    def crash(target: Bench) -> None:
        raise RuntimeError("boom")

    found = result(reference, crash, MUST)
    assert found.verdict is Verdict.ERROR
    assert found.detail.startswith("RuntimeError: boom (test_execution.py:")


def test_a_missing_capability_is_a_skip_that_names_it(reference: Target) -> None:
    found = result(reference, lambda target: None, MUST, needs=frozenset({"antigravity"}))
    assert (found.verdict, found.detail) == (Verdict.SKIP, "the target has no antigravity")


def test_a_harmful_case_needs_a_broker_of_ours_or_leave(reference: Target) -> None:
    def harmless(target: Bench) -> None:
        target.record_finding(MUST, True, "it lives")

    run, call = run_of(reference), made(harmless, MUST, harm="a dead thread")
    assert execute(run, call).verdict is Verdict.PASS
    elsewhere = target_file.load("127.0.0.1:1")
    assert not elsewhere.identity.started_here
    foreign = replace(run, target=elsewhere)
    skipped = execute(foreign, call)
    assert skipped.verdict is Verdict.SKIP
    assert "a dead thread" in skipped.detail
    assert execute(replace(foreign, allow_harm=True), call).verdict is not Verdict.SKIP


def test_every_cited_requirement_has_a_finding_however_the_case_ended(reference: Target) -> None:
    def half(target: Bench) -> None:
        target.record_finding(MUST, False, "no receipt arrived")

    def broken(target: Bench) -> None:
        half(target)
        raise RuntimeError("boom")

    assert verdicts(result(reference, half, MUST, SHOULD)) == {MUST: "FAIL", SHOULD: "INCONCLUSIVE"}
    assert verdicts(result(reference, broken, MUST, SHOULD)) == {MUST: "ERROR", SHOULD: "ERROR"}
    skipped = result(reference, half, MUST, SHOULD, needs=frozenset({"antigravity"}))
    assert verdicts(skipped) == {MUST: "SKIP", SHOULD: "SKIP"}


def test_each_finding_of_a_case_weighs_by_its_own_level(reference: Target) -> None:
    def bad(target: Bench) -> None:
        for requirement in (MUST, SHOULD, MAY, VENDOR):
            target.record_finding(requirement, False, "broken")
        target.record_finding(OTHER_MUST, False, "late", uncertain="the host was late")

    assert verdicts(result(reference, bad, MUST, SHOULD, MAY, VENDOR, OTHER_MUST)) == {
        MUST: "FAIL",
        SHOULD: "WARN",
        MAY: "NOTE",
        VENDOR: "FAIL",
        OTHER_MUST: "INCONCLUSIVE",
    }


def test_a_property_shrinks_to_its_smallest_violation(reference: Target) -> None:
    def bad(target: Bench, size: int) -> None:
        target.record_finding(MUST, size < 37, f"size {size}")

    found = result(reference, bad, MUST, over=Over({"size": st.integers(0, 1000)}, 100))
    assert found.verdict is Verdict.FAIL
    assert found.detail == f"{MUST}: size 37"


def test_what_is_drawn_is_a_function_of_the_seed_alone(
    reference: Target, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn: list[list[int]] = []

    def notes(target: Bench, number: int) -> None:
        drawn[-1].append(number)
        target.record_finding(MUST, True, "seen")

    call = made(notes, MUST, over=Over({"number": st.integers()}, 400))
    # Between the two calls a module is loaded; Hypothesis must not draw its constants.
    (tmp_path / "telling_constants.py").write_text(
        "".join(f"A{number} = {77_000 + number}\n" for number in range(300))
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    for module in ("json", "telling_constants"):
        importlib.import_module(module)
        drawn.append([])
        execute(run_of(reference), call)
    assert len(drawn[0]) == int(400 * EFFORTS["normal"][0])
    assert drawn[0] == drawn[1]


def test_a_property_holds_over_what_its_examples_reached(reference: Target) -> None:
    def some(target: Bench, size: int) -> None:
        target.record_finding(MUST, True, "always")
        if size > 5:
            target.record_finding(SHOULD, True, "sometimes")

    over = Over({"size": st.integers(0, 10)}, 50, always=lambda target: [{"size": 10}])
    assert result(reference, some, MUST, SHOULD, over=over).verdict is Verdict.PASS


def test_examples_in_real_time_run_at_once_and_report_the_worst() -> None:
    target = RealTimeTwin(target_file.load("reference"))
    seen: list[int] = []

    def bad(bench: Bench, size: int) -> None:
        seen.append(size)
        bench.record_finding(MUST, size != 3, f"size {size}")

    over = Over({"size": st.integers(0, 1000)}, 100, always=lambda target: [{"size": 3}])
    found = execute(run_of(target), made(bad, MUST, over=over))
    assert 3 in seen
    assert 0 not in seen, "the simplest example shows least"
    assert found.detail == f"{MUST}: size 3"


def test_examples_that_fail_a_control_end_the_others() -> None:
    runs: list[int] = []

    def unmet(bench: Bench, size: int) -> None:
        runs.append(size)
        bench.control(False, "nothing arrived")

    over = Over({"size": st.just(0)}, 1, always=lambda target: [{"size": n} for n in range(400)])
    found = execute(
        run_of(RealTimeTwin(target_file.load("reference"))), made(unmet, MUST, over=over)
    )
    assert found.verdict is Verdict.INCONCLUSIVE
    assert len(runs) < 400, "three attempts would be 1200"


def test_what_the_host_leaves_uncertain_is_tried_again_and_then_inconclusive() -> None:
    target = RealTimeTwin(target_file.load("reference"))
    tries: list[int] = []

    def late(bench: Bench) -> None:
        tries.append(1)
        bench.record_finding(MUST, False, "late", uncertain="within the margin")

    def late_once(bench: Bench) -> None:
        tries.append(1)
        bench.record_finding(MUST, len(tries) > 1, "late", uncertain="within the margin")

    found = execute(run_of(target), made(late, MUST))
    assert (found.verdict, found.attempts, len(tries)) == (Verdict.INCONCLUSIVE, 3, 3)
    assert found.detail == f"{MUST}: late (within the margin)"
    tries.clear()
    found = execute(run_of(target), made(late_once, MUST))
    assert (found.verdict, found.attempts) == (Verdict.PASS, 2)
    known = Deviation("", MUST, "", "late", "late", "it is lost", "https://here", "x:1")
    found = execute(run_of(target, deviations=(known,)), made(late, MUST))
    assert (found.verdict, found.attempts) == (Verdict.KNOWN, 1)


THREE = Over({"number": st.just(0)}, 1, always=lambda target: [{"number": n} for n in (1, 2, 3)])


def test_an_example_that_was_left_open_is_run_once_more_and_no_other_is() -> None:
    target = RealTimeTwin(target_file.load("reference"))
    runs: list[int] = []
    names: list[str] = []

    def late(bench: Bench, number: int) -> None:
        runs.append(number)
        names.append(bench.fresh_name())
        on_time = number != 2 or runs.count(2) == needed
        bench.record_finding(MUST, on_time, "late", uncertain="within the margin")

    for needed, attempts in ((2, 1), (3, 2)):
        runs.clear()
        found = execute(run_of(target), made(late, MUST, over=THREE))
        assert (found.verdict, found.attempts) == (Verdict.PASS, attempts)
        assert [runs.count(number) for number in (1, 2, 3)] == [attempts, needed, attempts]
        assert len(set(names)) == len(names), "a broker may not have noticed that a run is over"
        names.clear()


@pytest.mark.parametrize(
    ("racing", "needed", "verdict", "more"),
    [
        ({2}, 4, Verdict.PASS, 1),
        ({2}, 9, Verdict.INCONCLUSIVE, 1),
        ({1, 2, 3}, 4, Verdict.INCONCLUSIVE, 0),
    ],
)
def test_a_few_examples_whose_control_failed_are_run_once_more_alone_in_the_last_attempt(
    racing: set[int], needed: int, verdict: Verdict, more: int
) -> None:
    target = RealTimeTwin(target_file.load("reference"))
    runs: list[int] = []

    def races(bench: Bench, number: int) -> None:
        runs.append(number)
        bench.control(number not in racing or runs.count(number) == needed, "it raced")
        bench.record_finding(MUST, True, "seen")

    found = execute(run_of(target), made(races, MUST, over=THREE))
    assert (found.verdict, found.attempts) == (verdict, 3)
    assert [runs.count(number) for number in (1, 2, 3)] == [3, 3 + more, 3]


def test_a_control_that_fails_in_real_time_is_tried_again_and_what_it_was_is_told() -> None:
    target = RealTimeTwin(target_file.load("reference"))
    tries: list[int] = []

    def fails(bench: Bench) -> None:
        tries.append(1)
        bench.control(False, "it raced")

    def fails_once(bench: Bench) -> None:
        tries.append(1)
        bench.control(len(tries) > 1, "it raced")
        bench.record_finding(MUST, True, "seen")

    def crashes(bench: Bench) -> None:
        tries.append(1)
        raise RuntimeError("boom")

    found = execute(run_of(target), made(fails, MUST))
    assert (found.verdict, found.attempts, len(tries)) == (Verdict.INCONCLUSIVE, 3, 3)
    assert found.detail.startswith("precondition not met: it raced (attempt 1:")
    assert [finding.seen for finding in found.findings] == [Seen.UNMET]
    tries.clear()
    found = execute(run_of(target), made(fails_once, MUST))
    assert (found.verdict, found.attempts) == (Verdict.PASS, 2)
    assert found.detail == f"{MUST}: seen (attempt 1: control failed: it raced)"
    tries.clear()
    assert execute(run_of(target), made(crashes, MUST)).verdict is Verdict.ERROR
    assert len(tries) == 1


@pytest.mark.parametrize(
    ("places", "verdict"),
    [(["topic", "queue"], Verdict.PASS), (["topic", "topic"], Verdict.INCONCLUSIVE)],
)
def test_an_example_of_a_place_that_is_not_there_ends_no_other(
    places: list[str], verdict: Verdict
) -> None:
    def uses(bench: Bench, place: str) -> None:
        if place == "topic":
            raise ControlFailed("no topic was found", Symptom.UNMET)
        bench.record_finding(MUST, True, "seen")

    plans = [{"place": place} for place in places]
    over = Over({"place": st.just(places[-1])}, 1, always=lambda target: plans)
    target = RealTimeTwin(target_file.load("reference"))
    assert execute(run_of(target), made(uses, MUST, over=over)).verdict is verdict


def test_the_trace_of_a_case_is_recorded_and_read_back(reference: Target, tmp_path: Path) -> None:
    def good(target: Bench, size: int) -> None:
        peer = target.stomp("1.2")
        peer.publish(target.destination(), b"x" * size, proves=MUST)

    run = run_of(reference, tmp_path)
    found = execute(run, made(good, MUST, over=Over({"size": st.integers(0, 5)}, 5)))
    run.recorder.flush()
    events = read.case(tmp_path, "reference", "units.example")
    assert found.trace_ref == "trace/target=reference#case=units.example"
    assert sum(isinstance(event, ExampleStarted) for event in events) == 5
    assert any(isinstance(event, FrameReceived) and event.command == "RECEIPT" for event in events)
    assert isinstance(events[-1], CaseEnded)
    assert events[-1].detail == "PASS"


def test_where_configures_the_broker_of_its_example(reference: Target) -> None:
    def good(target: Bench, where: Where) -> None:
        peer = target.stomp("1.2", acceptor=where.acceptor, heart_beat="0,0")
        target.record_finding(
            MUST,
            peer.connected is not None and peer.connected["heart-beat"] == "0,2000",
            "asked for 2000",
        )

    where = Where("stomp", {"acceptor": {"connection_ttl_ms": 4000}, "broker": {}})
    assert (
        result(reference, good, MUST, over=Over({"where": st.just(where)}, 5)).verdict
        is Verdict.PASS
    )


def test_where_configures_the_broker_also_as_a_part_of_what_was_drawn(reference: Target) -> None:
    @dataclass(frozen=True)
    class Plan:
        where: Where

    def good(target: Bench, plan: Plan) -> None:
        peer = target.stomp("1.2", acceptor=plan.where.acceptor, heart_beat="0,0")
        target.record_finding(
            MUST,
            peer.connected is not None and peer.connected["heart-beat"] == "0,2000",
            "asked for 2000",
        )

    plan = Plan(Where("stomp", {"acceptor": {"connection_ttl_ms": 4000}}))
    assert (
        result(reference, good, MUST, over=Over({"plan": st.just(plan)}, 5)).verdict is Verdict.PASS
    )


def test_durations_are_judged_on_both_sides(reference: Target) -> None:
    def judge(value: int) -> Result:
        return result(
            reference,
            lambda target: target.judge_duration(MUST, "gap", value, (ms(10), ms(20)), 0),
            MUST,
        )

    expected = ["FAIL", "PASS", "PASS", "FAIL"]
    assert [judge(ms(number)).verdict.value for number in (9, 10, 20, 21)] == expected
    found = judge(ms(21))
    assert found.measurements == {"gap": Measurement(ms(21), "ns", ms(10), ms(20), margin=0)}


@pytest.mark.parametrize(
    ("decorate", "words"),
    [
        (lambda: case()(lambda target: None), "at least one requirement"),
        (lambda: case({"1.2": MUST})(lambda target: None), "argument named version"),
        (lambda: case(MUST)(lambda target, version: None), "must cite dicts of ids by version"),
    ],
)
def test_a_case_that_is_put_together_wrongly_is_refused(
    decorate: Callable[[], object], words: str
) -> None:
    before: Mapping[str, Case] = dict(registry())
    with pytest.raises(TypeError, match=words):
        decorate()
    assert registry() == before


def test_several_maps_from_version_to_id_make_one_citation(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("brokerproof.harness.cases.case._REGISTRY", {})
    decorated = case({"1.1": "A-1", "1.2": ("A-2", "A-3")}, {"1.2": "B-2"})(
        lambda target, version: None
    )
    made = of(decorated)
    assert made is not None
    assert made.by_version == {"1.1": ("A-1",), "1.2": ("A-2", "A-3", "B-2")}


def test_expectations_leave_other_frames_where_they_are(reference: Target) -> None:
    def good(target: Bench) -> None:
        to = target.destination()
        peer = target.stomp("1.2")
        peer.subscribe(to, "a")
        peer.publish(to, b"one")
        peer.publish(to, b"two")
        peer.expect(frame("MESSAGE", body=b"two"))
        target.require(MUST, peer.message().body == b"one", "the first is still there")

    assert result(reference, good, MUST).verdict is Verdict.PASS
