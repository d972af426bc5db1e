"""Faults on the wire: each is caught on the reference broker, and a link without a fault changes
nothing."""

import json
import random
from collections.abc import Iterable
from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from brokerproof.harness.cases.calls import all_calls
from brokerproof.harness.cases.execution import Run, execute
from brokerproof.harness.catalogue import requirements
from brokerproof.harness.model.enums import Clock, CloseHow
from brokerproof.harness.model.time import ms
from brokerproof.harness.model.verdicts import Verdict
from brokerproof.harness.protocols.amqp10 import codec as amqp10_codec
from brokerproof.harness.protocols.amqp10.types import encode
from brokerproof.harness.protocols.stomp import codec as stomp_codec
from brokerproof.harness.targets import target_file
from brokerproof.harness.trace.recorder import Recorder
from brokerproof.suites.mutation.command import mutants
from brokerproof.suites.mutation.judging import Status
from brokerproof.suites.mutation.matrix import Plan
from brokerproof.suites.mutation.mutant import Reached
from brokerproof.suites.mutation.wire import matrix
from brokerproof.suites.mutation.wire.mutant import Tampering, WireMutant
from brokerproof.suites.mutation.wire.stream_splitter import (
    AmqpUnit,
    Heartbeat,
    StompUnit,
    StreamSplitter,
    Unit,
    UnreadBytes,
)
from brokerproof.suites.mutation.wire.tampering import Late, Out, Rule, TamperingWorld
from brokerproof.suites.mutation.wire.target import WIRE_MUTANTS, WireTarget


def test_there_are_faults_on_the_wire() -> None:
    assert len(WIRE_MUTANTS) >= 45


@pytest.mark.parametrize("name", list(WIRE_MUTANTS))
def test_every_fault_on_the_wire_is_caught(name: str, tmp_path: Path) -> None:
    target = target_file.load("reference")
    (fate,) = matrix.judge_all(target, [WIRE_MUTANTS[name]], all_calls(), Plan(), tmp_path)
    target.stop()
    assert (fate.mutant, fate.status) == (name, Status.KILLED)


def test_what_the_faults_break_is_in_the_catalogue() -> None:
    catalogue = requirements.load()
    for mutant in WIRE_MUTANTS.values():
        assert mutant.fault, mutant.name
        for id in mutant.breaks:
            catalogue.find(id)


class Transparent(Tampering):
    """Splits both directions and passes everything on."""

    def from_broker(self, unit: Unit) -> Iterable[Out]:
        self.reached()
        return (unit.raw,)

    def to_broker(self, unit: Unit) -> Iterable[Out]:
        return (unit.raw,)


def test_a_link_that_only_looks_changes_no_verdict() -> None:
    wired = WireTarget(
        WireMutant("transparent", "", (), Transparent), target_file.load("reference")
    )
    facts = wired.start(Path())
    recorder = Recorder(None, run="", target=wired.identity.name, clock=wired.clock)
    run = Run(wired, facts, requirements.load(), (), recorder, "smoke", 1, shrink=False)
    # Unfinished frames do not pass through a link that handles whole frames. The cases of delivery
    # send none, except over CORE.
    calls = [
        call
        for call in all_calls()
        if call.id.startswith("delivery.")
        and call.case.over is None
        and "core" not in call.case.needs
    ]
    verdicts = {call.id: execute(run, call).verdict for call in calls}
    wired.stop()
    assert not {
        name: verdict
        for name, verdict in verdicts.items()
        if verdict not in (Verdict.PASS, Verdict.SKIP)
    }
    assert wired.reached.count > 100


# --- cutting --------------------------------------------------------------------------------------

STREAMS = st.lists(
    st.one_of(
        st.just(b"\n"),
        st.just(b"\r\n"),
        st.builds(
            lambda body, sized: stomp_codec.encode(
                "MESSAGE",
                {
                    "a": "b",
                    **({"content-length": str(len(body))} if sized or b"\0" in body else {}),
                },
                body,
            ),
            st.binary(max_size=30),
            st.booleans(),
        ),
    ),
    max_size=8,
).map(b"".join)


@settings(deadline=None)
@given(STREAMS, st.lists(st.integers(1, 40), max_size=20))
def test_cutting_loses_no_byte_of_stomp(stream: bytes, sizes: list[int]) -> None:
    cutter, out, start = StreamSplitter(), b"", 0
    for size in [*sizes, len(stream)]:
        out += b"".join(unit.raw for unit in cutter.feed(stream[start : start + size]))
        start += size
    assert out + cutter.rest() == stream


def test_units_of_stomp() -> None:
    stream = b"MESSAGE\na:b\ncontent-length:3\n\nx\0y\0\n\nRECEIPT\r\nreceipt-id:1\r\n\r\n\0"
    units = list(StreamSplitter().feed(stream))
    assert [type(unit) for unit in units] == [StompUnit, Heartbeat, StompUnit]
    first, _, last = units
    assert isinstance(first, StompUnit)
    assert isinstance(last, StompUnit)
    assert (first.command, first.body, last.get("receipt-id")) == ("MESSAGE", b"x\0y", "1")
    found = first.rewritten(change={"a": None, "c": "d"})
    assert found == b"MESSAGE\ncontent-length:3\nc:d\n\nx\0y\0"


def test_units_of_amqp() -> None:
    flow = amqp10_codec.encode_frame(
        encode(
            amqp10_codec.composite(
                "flow", incoming_window=1, next_outgoing_id=0, outgoing_window=2, handle=0
            )
        ),
        channel=3,
    )
    units = list(
        StreamSplitter().feed(
            amqp10_codec.protocol_header() + flow + amqp10_codec.encode_frame(b"")
        )
    )
    assert [type(unit) for unit in units] == [AmqpUnit, AmqpUnit, Heartbeat]
    unit = units[1]
    assert isinstance(unit, AmqpUnit)
    assert unit.rewritten({}) == flow
    changed = next(
        iter(amqp10_codec.Reader().feed(unit.rewritten({"link-credit": 7, "handle": None})))
    )
    assert isinstance(changed, amqp10_codec.Frame)
    assert (changed.get("link-credit"), changed.get("handle"), changed.channel) == (7, None, 3)


@pytest.mark.parametrize(
    "start", [b"GET / HTTP/1.1\r\n\r\n", b"\x16\x03\x01\x02", b"MESSAGE\n\xff\n\n\0"]
)
def test_what_cannot_be_cut_is_passed_on(start: bytes) -> None:
    cutter = StreamSplitter()
    assert b"".join(unit.raw for unit in cutter.feed(start)) == start
    assert [type(unit) for unit in cutter.feed(b"more")] == [UnreadBytes]


# --- passing on -----------------------------------------------------------------------------------


class Sink:
    """A receiver that keeps the received data and the instants of arrival."""

    def __init__(self) -> None:
        self.got: list[tuple[int, bytes]] = []
        self.closed: list[int] = []

    def bytes_arrived(self, at: int, data: bytes) -> None:
        self.got.append((at, data))

    def channel_closed(self, at: int, how: CloseHow) -> None:
        self.closed.append(at)


def test_what_is_late_holds_up_what_follows_it() -> None:
    class Slow(Rule):
        def from_broker(self, unit: Unit) -> Iterable[Out]:
            late = isinstance(unit, StompUnit) and unit.command == "CONNECTED"
            return (Late(unit.raw, ms(700)),) if late else (unit.raw,)

    target = target_file.load("reference")
    target.start(Path())
    world = TamperingWorld(target.world(1, None, lambda event: None), Slow)
    sink = Sink()
    channel = world.open(target.identity.default_acceptor, sink)
    login = {"login": target.identity.login or "", "passcode": target.identity.passcode or ""}
    channel.write(stomp_codec.encode("CONNECT", {"accept-version": "1.2", "host": "h", **login}))
    channel.write(stomp_codec.encode("BEGIN", {"transaction": "t", "receipt": "1"}))
    channel.write(stomp_codec.encode("DISCONNECT", {"receipt": "2"}))
    world.wait_until(lambda: bool(sink.closed), ms(5000))
    assert [data.split(b"\n")[0] for _, data in sink.got] == [b"CONNECTED", b"RECEIPT", b"RECEIPT"]
    assert [at for at, _ in sink.got] == [ms(700)] * 3
    assert sink.closed[0] >= ms(700)
    target.stop()


# --- the target and the command -------------------------------------------------------------------


def test_a_wire_mutant_is_a_target() -> None:
    target = target_file.load("wire:stomp.message-lost@reference")
    assert target.clock is Clock.VIRTUAL
    assert target.identity.name == "wire-stomp.message-lost-reference"
    rule = WIRE_MUTANTS["stomp.message-lost"].build(Reached(), random.Random(0))
    assert isinstance(rule, Rule)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("wire:stomp.message-lost", "wire:NAME@TARGET"),
        ("wire:nothing@reference", "there is no wire mutant 'nothing'; there are amqp."),
        ("wire:stomp.message-lost@nowhere", "'nowhere' is not a target file"),
    ],
)
def test_a_wire_mutant_that_does_not_exist_is_refused(text: str, words: str) -> None:
    with pytest.raises(target_file.BadTarget, match="wire") as caught:
        target_file.load(text)
    assert words in str(caught.value)


def test_the_command_tells_who_caught_what() -> None:
    done = CliRunner().invoke(
        mutants,
        ["--wire", "reference", "--mutant", "stomp.window-zero-is-none", "--json"],
        standalone_mode=False,
    )
    (fate,) = json.loads(done.output)
    expected = ("killed", "ARTEMIS-STOMP-window-2")
    assert (fate["status"], fate["killed_by"][0]["requirement"]) == expected
    assert done.return_value == 0
