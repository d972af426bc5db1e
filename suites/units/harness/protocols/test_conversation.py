"""The conversation that all peers have in common, on the reference broker in virtual time."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from brokerproof.harness.cases.bench import Bench
from brokerproof.harness.model.time import ms, seconds
from brokerproof.harness.model.verdicts import Seen
from brokerproof.harness.protocols.conversation import ControlFailed, Violated
from brokerproof.harness.targets import target_file


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    reference = target_file.load("reference")
    reference.start(tmp_path)
    made = Bench(reference, ("X-1",), label="unit", seed=1)
    yield made
    made.close()
    reference.stop()


def test_a_client_that_kept_its_promise_is_not_overdue(bench: Bench) -> None:
    peer = bench.stomp(heart_beat="1000,0")
    for _ in range(5):
        bench.advance(ms(1000))
        peer.beat()
    assert peer.ended is None
    assert peer.overdue(ms(1000)) is None


def test_a_pause_in_the_past_counts_though_the_client_has_spoken_since(bench: Bench) -> None:
    peer = bench.stomp(heart_beat="1000,0")
    bench.advance(ms(1200))
    peer.beat()
    peer.beat()
    assert peer.overdue(ms(1000)) == (
        "our own longest pause was 1200 ms, and the host late by 0 ms, of 1000 ms promised"
    )


def test_a_host_that_is_late_makes_a_pause_longer(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    peer = bench.stomp(heart_beat="1000,0")
    bench.advance(ms(900))
    peer.beat()
    monkeypatch.setattr(bench.world, "lateness", lambda since: ms(100) if since == 0 else 0)
    assert peer.overdue(ms(1000)) is None
    assert peer.overdue(ms(999)) is not None


def test_a_pause_ends_with_the_connection(bench: Bench) -> None:
    peer = bench.stomp(heart_beat="1000,0")
    assert peer.spoke_at is not None
    bench.wait_until(lambda: peer.ended is not None, seconds(20))
    assert peer.ended is not None
    pause = peer.ended.at - peer.spoke_at
    bench.advance(seconds(60))
    assert peer.overdue(pause) is None
    assert peer.overdue(pause - 1) is not None


def test_a_requirement_may_be_violated_uncertainly_and_ends_the_case(bench: Bench) -> None:
    with pytest.raises(Violated):
        bench.require("X-1", False, "closed", uncertain="the client was late")
    (finding,) = bench.example_record.findings
    assert (finding.seen, finding.uncertain) == (Seen.VIOLATED, "the client was late")


def test_what_is_written_in_one_write_reaches_the_link_in_one_piece(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    peer = bench.stomp()
    pieces: list[bytes] = []
    monkeypatch.setattr(peer.channel, "write", pieces.append)
    with peer.in_one_write():
        peer.write(b"one, ")
        peer.write(b"two")
        assert not pieces
    peer.write(b"three")
    assert pieces == [b"one, two", b"three"]


def test_a_version_that_is_judged_on_another_target_is_spoken_here(bench: Bench) -> None:
    identity = bench.target.identity.without({"stomp-1.1": "our manual, page 3"})
    bench.target.identity = replace(identity, not_offered={}, judged_on={"stomp-1.1": "another"})
    assert bench.stomp("1.1").connected is not None
    bench.target.identity = identity
    with pytest.raises(ControlFailed, match=r"no stomp-1\.1 \(our manual, page 3\)"):
        bench.stomp("1.1")
