"""Foundations of the cases on full addresses: the broker's own figures, charges for messages, and
the limits in broker.xml."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from brokerproof.fixtures import __file__ as fixtures
from brokerproof.harness.cases.bench import Bench
from brokerproof.harness.model.time import seconds
from brokerproof.harness.protocols.conversation import ControlFailed
from brokerproof.harness.targets import target_file
from brokerproof.reference_broker.config.artemis import broker_xml
from brokerproof.reference_broker.settings.address_rules import AddressRules
from brokerproof.suites.steps import small_addresses
from brokerproof.suites.steps.paging import brief
from brokerproof.suites.steps.small_addresses import MESSAGES, PAGED_MESSAGES

ADDRESSES = target_file.load("reference").identity.addresses
LIMIT, PAGE = ADDRESSES.max_size_bytes, ADDRESSES.page_size_bytes


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    target = target_file.load("reference")
    target.start(tmp_path)
    made = Bench(target, ("ARTEMIS-PAGING-8",), label="full")
    yield made
    made.close()
    target.stop()


def test_a_weight_that_is_asked_for_is_the_one_that_is_searched(bench: Bench) -> None:
    assert (
        small_addresses._asked(bench)
        == small_addresses._searched(bench)
        == 352 + 72 + len(b"\0\x53\x75\xb0" + bytes(4))
    )


def test_an_address_tells_how_it_stands(bench: Bench) -> None:
    to = small_addresses.destination(bench, "page")
    peer = bench.stomp()
    for number in range(30):
        peer.publish(to, small_addresses.body(number, 2000))
    state, reached = bench.admin().until(to.name, lambda found: found.pages > 0)
    assert reached
    assert (state.messages, state.paging) == (30, True)
    assert LIMIT <= state.size < LIMIT + 3000


def test_what_is_not_there_is_a_failed_control(bench: Bench) -> None:
    with pytest.raises(
        ControlFailed,
        match=r"did not return addressSize of address\.nowhere: .*there is no resource",
    ):
        bench.admin().size("nowhere")


def test_waiting_for_a_state_has_an_end(bench: Bench) -> None:
    to = small_addresses.destination(bench, "page")
    bench.stomp().publish(to, b"x")
    began = bench.now()
    state, reached = bench.admin().until(to.name, lambda found: found.pages > 0, seconds(5))
    assert not reached
    assert state.messages == 1
    assert seconds(5) <= bench.now() - began < seconds(7)


@pytest.mark.parametrize("goal", [LIMIT - 1, LIMIT, LIMIT + 1, 3000])
def test_bodies_are_found_that_weigh_what_is_wanted(bench: Bench, goal: int) -> None:
    to, admin = small_addresses.destination(bench, "fail"), bench.admin()
    peer = bench.stomp()
    for number, size in enumerate(small_addresses.Scale(bench, admin, to).sizes(goal)):
        peer.publish(to, small_addresses.body(number, size))
    assert admin.size(to.name) == goal


def test_a_filling_has_to_leave_room_for_a_last_body() -> None:
    assert [len(size) for size in small_addresses.filling(3000, 100, [1000])] == [1000, 1800]
    with pytest.raises(ValueError, match="leave no room"):
        small_addresses.filling(3000, 100, [2700])


def test_the_limits_are_those_of_the_file() -> None:
    settings = broker_xml.read(Path(fixtures).parent / "brokers" / "artemis" / "broker.xml", {})
    rules = AddressRules(settings)
    assert {
        rules.of(f"full.{kind}.x").max_size_bytes
        for kind in ("page", "block", "fail", "drop", "reject")
    } == {LIMIT}
    found = rules.of("full.reject.x").max_size_bytes_reject_threshold
    assert found == ADDRESSES.max_size_bytes_reject_threshold
    assert {
        rules.of(f"full.three.{kind}.x").max_size_messages
        for kind in ("page", "block", "fail", "drop")
    } == {MESSAGES}
    page = rules.of("full.page.x")
    assert page.page_size_bytes == PAGE
    assert page.max_read_page_bytes is None
    assert {rules.of(f"full.pages.{name}.x").page_limit_bytes for name in ("fail", "drop")} == {
        ADDRESSES.page_limit_bytes
    }
    assert {
        rules.of(f"full.paged-messages.{name}.x").page_limit_messages for name in ("fail", "drop")
    } == {PAGED_MESSAGES}


def test_numbers_are_told_in_runs() -> None:
    assert brief([]) == "nothing"
    assert brief([0, 1, 2, 5, 4]) == "0-2, 5, 4"
