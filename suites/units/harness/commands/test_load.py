"""``brokerproof load`` against the reference broker over sockets: small loads and their files."""

import errno
import json
import socket
from pathlib import Path

import pytest
from click.testing import CliRunner

from brokerproof.harness.commands import errors
from brokerproof.harness.commands.load import in_one_sentence, load
from brokerproof.harness.load import worker
from brokerproof.harness.load.conductor import LoadOutcome
from brokerproof.harness.model.enums import CloseHow
from brokerproof.harness.model.verdicts import Seen
from brokerproof.harness.oracles import amqp_credit, amqp_deliveries, recorded_anomalies
from brokerproof.harness.targets.target_file import load as load_target
from brokerproof.harness.trace import read
from brokerproof.harness.trace.events import (
    ConnectionAbandoned,
    FrameReceived,
    FrameSent,
    LinkFaulted,
)
from brokerproof.harness.trace.stamp import read as stamped


def run(
    folder: Path, options: str, target: str = "reference-real"
) -> tuple[int, dict[str, object]]:
    arguments = ["--target", target, "--seed", "1", "--out", str(folder), "--json"]
    arguments += options.split()
    done = CliRunner().invoke(load, arguments, standalone_mode=False, catch_exceptions=False)
    return done.return_value, json.loads(done.stdout)


def test_two_drivers_record_one_load_that_the_oracles_find_nothing_in(tmp_path: Path) -> None:
    options = "--messages 200 --producers 3 --consumers 2 --connections 4 --drivers 2"
    code, told = run(tmp_path / "run", options)
    assert code == 0
    assert told["sent"] == told["confirmed"] == told["received"] == told["settled"] == 200
    events = read.case(tmp_path / "run", "reference-real", "load")
    assert told["recorder"]["events"] == len(events)  # type: ignore[index]
    events.sort(key=lambda event: event.at_ns)
    assert not recorded_anomalies.find_anomalies(events)
    sent = [
        stamped(event.body)
        for event in events
        if isinstance(event, FrameSent) and event.command == "SEND"
    ]
    came = [
        stamped(event.body)
        for event in events
        if isinstance(event, FrameReceived) and event.command == "MESSAGE"
    ]
    assert None not in sent
    assert len(set(sent)) == 200
    assert set(sent) == set(came)
    assert "passcode" in str(events)
    assert "('passcode', 'brokerproof')" not in str(events)
    header = json.loads((tmp_path / "run" / "run.json").read_text())
    assert [clock["same_clock"] for clock in header["load"]["clocks"]] == [True, True]
    assert header["footer"]["exit_code"] == 0
    assert not (tmp_path / "run" / "tape").exists(), "the scribes have made segments of every tape"


def test_amqp_with_cuts_is_recorded_so_that_its_oracles_can_judge_it(tmp_path: Path) -> None:
    options = "--protocol amqp --rate 300 --duration 1500ms --producers 2 --consumers 2"
    code, told = run(tmp_path / "run", f"{options} --fault cut:400ms --size 100..900")
    assert told["sent"], told
    assert told["received"] >= told["confirmed"]  # type: ignore[operator]
    assert told["faults"]["cut"] >= 1  # type: ignore[index]
    assert code in (0, 2), "what was on a connection when it was cut may lack its confirmation"
    events = read.case(tmp_path / "run", "reference-real", "load")
    conns = {event.conn for event in events if event.conn is not None}
    assert len(conns) == told["connections"]
    for conn in conns:
        findings = [*amqp_credit.credit(events, conn), *amqp_deliveries.delivery_ids(events, conn)]
        assert not [finding for finding in findings if finding.seen is Seen.VIOLATED]
    cuts = [event.conn for event in events if isinstance(event, LinkFaulted)]
    resets = [
        event.conn
        for event in events
        if isinstance(event, ConnectionAbandoned) and event.how is CloseHow.RESET
    ]
    assert cuts == resets


def test_a_target_in_virtual_time_takes_no_load(tmp_path: Path) -> None:
    assert load_target("reference").clock == "VIRTUAL"
    arguments = ["--target", "reference", "--out", str(tmp_path / "run")]
    with pytest.raises(Exception, match="reference-real"):
        CliRunner().invoke(load, arguments, standalone_mode=False, catch_exceptions=False)


def test_an_unreachable_broker_is_a_set_up_that_failed(tmp_path: Path) -> None:
    arguments = ["--target", "127.0.0.1:1", "--out", str(tmp_path / "run")]
    with pytest.raises(Exception, match="does not accept connections") as caught:
        CliRunner().invoke(load, arguments, standalone_mode=False, catch_exceptions=False)
    assert getattr(caught.value, "exit_code", None) == 3


def test_amqp_0_9_1_with_cuts_is_recorded_so_that_what_came_can_be_told(tmp_path: Path) -> None:
    options = "--protocol amqp091 --rate 300 --duration 1500ms --producers 2 --consumers 2"
    options += " --connections 3 --fault cut:400ms --ack client"
    _, told = run(tmp_path / "run", options, "reference-rabbitmq-real")
    assert not told["errors"], told
    assert told["faults"]["cut"] >= 1  # type: ignore[index]
    assert told["received"] >= told["confirmed"] > 100  # type: ignore[operator]
    events = read.case(tmp_path / "run", "reference-rabbitmq-real", "load")
    frames = [event for event in events if isinstance(event, FrameSent | FrameReceived)]
    published = {stamped(frame.body) for frame in frames if frame.command == "basic.publish"}
    delivered = [stamped(frame.body) for frame in frames if frame.command == "basic.deliver"]
    assert len(published) == told["sent"]
    assert len(delivered) == told["received"]
    assert set(delivered) <= published
    assert ("response", "***") in next(
        frame for frame in frames if frame.command == "connection.start-ok"
    ).headers
    acks = [
        frame for frame in frames if frame.command == "basic.ack" and isinstance(frame, FrameSent)
    ]
    assert {dict(ack.headers)["multiple"] for ack in acks} == {"true"}
    resets = [
        event.conn
        for event in events
        if isinstance(event, ConnectionAbandoned) and event.how is CloseHow.RESET
    ]
    assert [event.conn for event in events if isinstance(event, LinkFaulted)] == resets


def test_an_interrupted_load_says_what_there_is_of_it(tmp_path: Path) -> None:
    def interrupted() -> LoadOutcome:
        raise KeyboardInterrupt

    with pytest.raises(errors.Interrupted, match="nothing was recorded"):
        in_one_sentence(interrupted, tmp_path)
    segment = tmp_path / "trace" / "target=x" / "part-0-00000.parquet"
    segment.parent.mkdir(parents=True)
    segment.touch()
    with pytest.raises(errors.Interrupted, match="for brokerproof judge"):
        in_one_sentence(interrupted, tmp_path)


def test_a_driver_that_cannot_write_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device", "/run/tape/0/00000000")

    monkeypatch.setattr(worker.Worker, "_next", full)
    with socket.create_server(("127.0.0.1", 0)) as conductor:
        assert worker.work(f"127.0.0.1:{conductor.getsockname()[1]}", "token") == 3
        with conductor.accept()[0] as heard:
            assert b"/run/tape/0/00000000: cannot be written on" in heard.recv(4096)


def test_a_driver_whose_conductor_went_before_it_came_ends() -> None:
    with socket.socket() as gone:
        gone.bind(("127.0.0.1", 0))  # kept open, so that no other process listens there
        assert worker.work(f"127.0.0.1:{gone.getsockname()[1]}", "token") == 5
