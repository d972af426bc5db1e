"""``brokerproof broker`` as a process, and the broker that the virtual world finds by name."""

import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

from brokerproof.harness.model.broker_io import BytesReceived, Connected, SendBytes
from brokerproof.harness.targets import certificates
from brokerproof.reference_broker.runtime import virtual
from brokerproof.reference_broker.settings.settings import BadSetting

BROKERS = Path(str(files("brokerproof.fixtures"))) / "brokers"
OUR_FILE = BROKERS / "artemis" / "broker.xml"
COMMAND = [sys.executable, "-m", "brokerproof.reference_broker"]
WITHIN_S = 20.0


@contextmanager
def running(
    *options: str, **environment: str
) -> Iterator[tuple[subprocess.Popen[str], dict[str, Any]]]:
    """Start a broker process; yield it and its ready line. ``environment`` extends this
    process's."""
    about: dict[str, Any] = {
        "stdout": subprocess.PIPE,
        "stderr": subprocess.PIPE,
        "env": os.environ | environment,
    }
    with subprocess.Popen([*COMMAND, *options], text=True, **about) as process:
        guard = threading.Timer(WITHIN_S, process.kill)
        guard.start()
        try:
            assert process.stdout is not None
            assert process.stderr is not None
            line = process.stdout.readline()
            assert line, process.stderr.read()
            yield process, json.loads(line)
        finally:
            guard.cancel()
            process.kill()


def refused(*options: str) -> tuple[int, str]:
    done = subprocess.run(
        [*COMMAND, *options], capture_output=True, text=True, timeout=WITHIN_S, check=False
    )
    assert done.stdout == ""
    return done.returncode, done.stderr


def connected(port: int, login: str = "") -> bytes:
    with socket.create_connection(("127.0.0.1", port), 5) as peer:
        peer.sendall(f"CONNECT\naccept-version:1.2\nhost:h\n{login}\n\0".encode())
        return peer.recv(9)


def test_it_says_one_line_serves_and_ends_in_order() -> None:
    with running("--stomp", "0") as (process, line):
        assert set(line) == {
            *("ready", "pid", "stomp", "amqp", "core", "openwire", "stomp+ssl", "amqps"),
            *("acceptors", "tls", "closed", "broker", "version"),
        }
        assert line["amqp"] is None
        assert line["core"] is None
        assert line["stomp+ssl"] is None
        assert line["amqps"] is None
        assert line["tls"] == []
        assert (line["ready"], line["pid"], line["closed"]) == (True, process.pid, [])
        assert line["acceptors"] == {"stomp": line["stomp"]}
        assert connected(line["stomp"]) == b"CONNECTED"
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=5)
        assert (process.returncode, out, err) == (0, "", "")


def test_it_ends_in_order_with_a_client_connected_and_on_sigint_too() -> None:
    with (
        running("--stomp", "0") as (process, line),
        socket.create_connection(("127.0.0.1", line["stomp"]), 5) as peer,
    ):
        process.send_signal(signal.SIGINT)
        assert peer.recv(1) == b""
        _, err = process.communicate(timeout=5)
        assert (process.returncode, err) == (0, "")


def test_acceptors_come_from_the_file_and_any_port_moves_them_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    certificates.make(tmp_path)
    monkeypatch.setenv(certificates.FOLDER, str(tmp_path))
    with running("--config", str(OUR_FILE), "--any-port") as (_, line):
        assert {"stomp", "ttl-2000", "window-0"} <= set(line["acceptors"])
        assert len(set(line["acceptors"].values())) == len(line["acceptors"])
        assert line["stomp"] == line["acceptors"]["stomp"]
        login = "login:brokerproof\npasscode:brokerproof\n"
        assert connected(line["acceptors"]["ttl-2000"], login) == b"CONNECTED"
        assert connected(line["acceptors"]["ttl-2000"], "") == b"ERROR\nmes"


@pytest.mark.parametrize(("option", "settled"), [("kept", True), ("ignored", False)])
def test_acks_in_transactions_can_be_ignored(option: str, settled: bool) -> None:
    with (
        running("--stomp", "0", "--transactional-acks", option) as (_, line),
        socket.create_connection(("127.0.0.1", line["stomp"]), 5) as peer,
    ):

        def ask(data: str, end: bytes) -> bytes:
            peer.sendall(data.encode())
            got = b""
            while end not in got:
                got += peer.recv(4096)
            return got

        send = "SEND\ndestination:q\ndestination-type:ANYCAST\n\nm\0"
        listen = "SUBSCRIBE\nid:0\ndestination:q\nsubscription-type:ANYCAST\nack:client\n\n\0"
        got = ask(f"CONNECT\naccept-version:1.2\nhost:h\n\n\0{send}{listen}", b"m\0")
        ack = got.partition(b"\nack:")[2].partition(b"\n")[0].decode()
        rest = f"ACK\nid:{ack}\ntransaction:t\n\n\0COMMIT\ntransaction:t\n\n\0UNSUBSCRIBE\nid:0\nreceipt:r\n\n\0"  # noqa: E501
        ask(f"BEGIN\ntransaction:t\n\n\0{rest}", b"receipt-id:r\n\n\0")
        again = ask(listen.replace("client", "auto") + send.replace("\nm", "\nlast"), b"last\0")
        assert (b"\n\nm\0" not in again) == settled


def test_naming_a_port_opens_that_protocol_alone() -> None:
    with running("--amqp", "0") as (_, line):
        assert (line["stomp"], line["acceptors"]) == (None, {"amqp": line["amqp"]})
        with socket.create_connection(("127.0.0.1", line["amqp"]), 5) as peer:
            peer.sendall(b"AMQP\0\1\0\0")
            assert peer.recv(8) == b"AMQP\0\1\0\0"
    with running("--amqp", "0", "--stomp", "0") as (_, line):
        assert line["acceptors"] == {"amqp": line["amqp"], "stomp": line["stomp"]}


def test_a_port_for_a_protocol_that_no_acceptor_speaks(tmp_path: Path) -> None:
    path = tmp_path / "broker.xml"
    path.write_text(
        '<configuration xmlns="urn:activemq"><core'
        ' xmlns="urn:activemq:core"><security-enabled>false</security-enabled><acceptors><acceptor'
        ' name="s">tcp://127.0.0.1:0?protocols=STOMP</acceptor><acceptor'
        ' name="m">tcp://127.0.0.1:0?protocols=MQTT</acceptor></acceptors></core></configuration>'
    )
    code, sentence = refused("--config", str(path), "--amqp", "0")
    assert code == 4
    assert "no acceptor speaks AMQP; write protocols=AMQP" in sentence
    path.write_text(path.read_text().replace("protocols=STOMP", "protocols=STOMP,AMQP"))
    code, sentence = refused("--config", str(path), "--amqp", "0", "--stomp", "61613")
    assert code == 4
    assert "both options must name the same port" in sentence


def test_the_port_option_wins_over_the_file(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        path = tmp_path / "broker.xml"
        path.write_text(
            '<configuration xmlns="urn:activemq"><core'
            ' xmlns="urn:activemq:core"><security-enabled>false</security-enabled>'
            '<acceptors><acceptor name="mqtt">tcp://127.0.0.1:1?protocols=MQTT</acceptor>'
            "<acceptor"
            f' name="s">tcp://127.0.0.1:{taken.getsockname()[1]}?protocols=STOMP</acceptor></acceptors>'
            "</core></configuration>"
        )
        with running("--config", str(path), "--stomp", "0") as (_, line):
            assert (line["acceptors"], line["closed"]) == ({"s": line["stomp"]}, ["mqtt"])
            assert connected(line["stomp"]) == b"CONNECTED"
        code, sentence = refused("--config", str(path))
        assert code == 3
        assert sentence.count("\n") == 1
        assert "acceptor 's' cannot listen on 127.0.0.1:" in sentence


def test_it_ends_with_its_parent() -> None:
    parent = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    with running("--stomp", "0", "--parent-pid", str(parent.pid)) as (process, line):
        assert connected(line["stomp"]) == b"CONNECTED"
        assert process.poll() is None
        parent.communicate(b"\n")
        assert process.wait(5) == 0


def test_a_parent_that_is_gone_already_ends_it_at_once() -> None:
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    with running("--stomp", "0", "--parent-pid", str(gone.pid)) as (process, _):
        assert process.wait(5) == 0


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--data", __file__], "is a file"),
        (
            ["--profile", "hornetq"],
            "--profile: 'hornetq' is unknown; choose artemis, rabbitmq or activemq",
        ),
        (
            ["--config", "/nowhere/broker.xml"],
            "/nowhere/broker.xml: cannot be read (No such file or directory)",
        ),
        (["--check"], "--check needs a configuration to read"),
        (["--stomp", "65536"], "65536 is not in the range"),
        (["--wibble"], "No such option"),
    ],
)
def test_bad_options_are_a_usage_error(options: list[str], sentence: str) -> None:
    code, said = refused(*options)
    assert code == 4
    assert sentence in said
    assert "Traceback" not in said


@pytest.mark.parametrize(
    ("profile", "file", "setting"),
    [
        ("artemis", "artemis/broker.xml", "security-settings"),
        ("activemq", "activemq/activemq.xml", "useJmx"),
        ("rabbitmq", "rabbitmq/rabbitmq.conf", "log.file.level"),
    ],
)
def test_check_tells_what_has_no_effect(profile: str, file: str, setting: str) -> None:
    done = subprocess.run(
        [*COMMAND, "--profile", profile, "--config", str(BROKERS / file), "--check"],
        capture_output=True,
        text=True,
        timeout=WITHIN_S,
        check=True,
    )
    *notes, verdict = done.stdout.splitlines()
    assert any(f"{setting} has no effect here: " in note for note in notes)
    assert verdict.endswith(f"acceptors, {len(notes)} settings without effect")


def test_no_heavy_import_before_it_is_needed() -> None:
    script = "import sys; import brokerproof.reference_broker.runtime.command; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert not {"lxml", "pyarrow", "pyspark", "hypothesis", "pytest"} & set(done.stdout.split())


def test_the_virtual_broker_has_the_parameters_of_the_file() -> None:
    made = virtual.make(str(OUR_FILE), {}, start=5)
    expected = {
        "name": "ttl-min-max",
        "protocols": "STOMP",
        "connection_ttl_ms": 1000,
        "connection_ttl_min_ms": 1500,
        "connection_ttl_max_ms": 3000,
        "heart_beat_to_connection_ttl_modifier": 2.0,
        "stomp_consumer_window_size": 10240,
        "connection_ttl_override_ms": -1,
        "connection_ttl_check_interval_ms": 500,
    }
    assert expected.items() <= made.acceptors["ttl-min-max"].items()
    assert made.acceptors["amqp-credits-10"]["amqp_low_credits"] == 3
    assert made.version


def test_without_a_file_there_is_one_acceptor_and_overrides_reach_the_broker() -> None:
    overrides = {
        "acceptor": {"connection_ttl_ms": 4000, "heart_beat_to_connection_ttl_modifier": 4},
        "broker": {"connection_ttl_override_ms": 9000},
    }
    made = virtual.make(None, overrides, start=0)
    assert list(made.acceptors) == ["stomp"]
    assert made.acceptors["stomp"]["connection_ttl_ms"] == 4000
    assert made.acceptors["stomp"]["connection_ttl_override_ms"] == 9000
    made.broker.handle(0, Connected(1, "stomp", "peer"))
    effects = made.broker.handle(
        1, BytesReceived(1, b"CONNECT\naccept-version:1.2\nhost:h\nheart-beat:0,0\n\n\0")
    )
    answer = b"".join(effect.data for effect in effects if isinstance(effect, SendBytes))
    assert b"heart-beat:0,1000" in answer, "4000 ms without beats, asked for at a quarter of it"


def test_a_file_that_changed_is_read_again(tmp_path: Path) -> None:
    path = tmp_path / "broker.xml"
    text = OUR_FILE.read_text()
    path.write_text(text)
    users = path.with_name("artemis-users.properties")
    users.write_text("a = b\n")
    assert virtual.make(str(path), {}, start=0).acceptors["ttl-2000"]["connection_ttl_ms"] == 2000
    path.write_text(text.replace("connectionTtl=2000", "connectionTtl=20000"))
    assert virtual.make(str(path), {}, start=0).acceptors["ttl-2000"]["connection_ttl_ms"] == 20000
    users.unlink()
    with pytest.raises(BadSetting, match="security is on"):
        virtual.make(str(path), {}, start=0)


def test_a_file_is_read_again_when_a_variable_that_it_names_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "broker.xml"
    path.write_text(OUR_FILE.read_text().replace("connectionTtl=2000", "connectionTtl=${TTL:2000}"))
    path.with_name("artemis-users.properties").write_text("a = b\n")
    monkeypatch.delenv("TTL", raising=False)
    first = virtual.make(str(path), {}, start=0)
    monkeypatch.setenv("ANOTHER", "value")
    assert virtual.make(str(path), {}, start=0).acceptors is first.acceptors, (
        "nothing that it names has changed"
    )
    monkeypatch.setenv("TTL", "3000")
    assert virtual.make(str(path), {}, start=0).acceptors["ttl-2000"]["connection_ttl_ms"] == 3000
    monkeypatch.delenv("TTL")
    assert virtual.make(str(path), {}, start=0).acceptors["ttl-2000"]["connection_ttl_ms"] == 2000


@pytest.mark.parametrize(
    ("overrides", "sentence"),
    [
        ({"acceptors": {}}, "unknown group of overrides 'acceptors'"),
        (
            {"acceptor": {"connection_ttl": 1}},
            "unknown override acceptor.connection_ttl; did you mean connection_ttl_m",
        ),
        ({"acceptor": {"port": 1}}, "unknown override acceptor.port"),
        ({"broker": {"acceptors": ()}}, "unknown override broker.acceptors"),
        (
            {"acceptor": {"connection_ttl_ms": "1"}},
            "override acceptor.connection_ttl_ms: '1' has the wrong type",
        ),
        ({"acceptor": {"stomp_consumer_window_size": True}}, "True has the wrong type"),
        ({"acceptor": 5}, "the overrides of acceptor are 5"),
    ],
)
def test_an_override_that_is_none_is_refused(overrides: dict[str, object], sentence: str) -> None:
    with pytest.raises(BadSetting) as caught:
        virtual.make(None, overrides, start=0)
    assert sentence in str(caught.value)


def test_a_port_for_openwire_opens_an_acceptor_for_it() -> None:
    with running("--profile", "activemq", "--openwire", "0") as (_, line):
        assert line["acceptors"] == {"openwire": line["openwire"]}
        with socket.create_connection(("127.0.0.1", line["openwire"]), 5) as peer:
            assert peer.recv(100)[4:13] == b"\x01ActiveMQ"


def test_openwire_is_spoken_in_the_profile_of_activemq_alone() -> None:
    code, said = refused("--openwire", "0")
    assert code == 4
    assert "the profile artemis does not speak OpenWire; use --profile activemq" in said


def test_a_port_for_core_opens_an_acceptor_for_it() -> None:
    with running("--core", "0") as (_, line):
        assert line["acceptors"] == {"core": line["core"]}
        with socket.create_connection(("127.0.0.1", line["core"]), 5) as peer:
            ping = (17).to_bytes(4) + b"\x0a" + bytes(8) + (60_000).to_bytes(8)
            peer.sendall(b"ARTEMIS" + ping)
            assert peer.recv(100) == ping
