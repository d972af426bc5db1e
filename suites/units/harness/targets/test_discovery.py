"""Discovery: virtual hosts, family and release of a broker with a known address."""

import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from brokerproof.harness.commands import judging
from brokerproof.harness.commands.judging import Asked
from brokerproof.harness.inference.dialect import is_unknown
from brokerproof.harness.protocols.amqp091 import codec
from brokerproof.harness.protocols.amqp10 import codec as amqp_codec
from brokerproof.harness.protocols.amqp10 import types
from brokerproof.harness.targets import target_file
from brokerproof.harness.targets.external import dialogue
from brokerproof.harness.targets.external.target import AddressTarget
from brokerproof.harness.targets.failure import SetUpFailed
from brokerproof.suites.units.drivers.misbehaving import SERVERS, listening


def stomp(server: str, host: str = "") -> Callable[[socket.socket], None]:
    def serve(client: socket.socket) -> None:
        if not (data := client.recv(4096)):
            return
        if host and f"\nhost:{host}\n".encode() not in data:
            client.sendall(b"ERROR\nmessage:Bad CONNECT\n\nno such host\0")
            return
        named = f"server:{server}\n" if server else ""
        client.sendall(f"CONNECTED\nversion:1.2\n{named}\n\0".encode())

    return serve


def amqp091(product: str, host: str) -> Callable[[socket.socket], None]:
    """An AMQP 0-9-1 broker that announces confirms but not basic.nack."""

    def serve(client: socket.socket) -> None:
        def send(name: str, fields: dict[str, object]) -> None:
            payload = codec.encode_method(name, fields)
            client.sendall(codec.encode_frame(codec.METHOD, 0, payload))

        if not client.recv(8).startswith(b"AMQP\0\0\x09"):
            client.sendall(codec.protocol_header())
            return
        announced = {"publisher_confirms": True, "basic.nack": False}
        about = {"product": product, "version": "1.5", "capabilities": announced}
        start = {"version-major": 0, "version-minor": 9, "server-properties": about}
        send("connection.start", {**start, "mechanisms": b"PLAIN", "locales": b"en_US"})
        reader = codec.Reader()
        while data := client.recv(4096):
            for frame in reader.feed(data):
                assert isinstance(frame, codec.Frame)
                if frame.name == "connection.start-ok":
                    send("connection.tune", {"channel-max": 9, "frame-max": 4096, "heartbeat": 0})
                elif frame.name == "connection.open" and frame.fields["virtual-host"] == host:
                    send("connection.open-ok", {})
                elif frame.name == "connection.open":
                    send("connection.close", {"reply-code": 530, "reply-text": "no such host"})

    return serve


def address(url: str) -> AddressTarget:
    target = target_file.load(url)
    assert isinstance(target, AddressTarget)
    return target


@pytest.mark.parametrize(
    ("server", "profile", "judged_as"),
    [
        ("ActiveMQ-Artemis/2.56.0 ActiveMQ Artemis", "artemis", "judged as Artemis 2.56.0, as"),
        ("ActiveMQ-Artemis/2.15.0 ActiveMQ Artemis", "artemis", "judged as Artemis 2.15.0, as"),
        ("ActiveMQ/6.3.1", "activemq", "judged as ActiveMQ 6.3.1, as it identifies itself"),
        ("RabbitMQ/4.0.5", "rabbitmq", "judged as RabbitMQ 4.0.5, as it identifies itself"),
        ("coilmq/1.1", "stomp", "judged by the specifications alone; its name is coilmq 1.1"),
        ("", "stomp", "judged by the specifications alone"),
    ],
)
def test_a_broker_is_of_the_family_that_it_names(
    server: str, profile: str, judged_as: str, tmp_path: Path
) -> None:
    with listening(stomp(server)) as port:
        target = address(f"stomp://127.0.0.1:{port}")
        facts = target.start(tmp_path)
        target.stop()
    identity = target.identity
    assert facts.judged_as.startswith(judged_as)
    assert (identity.profile.name, identity.name) == (profile, f"127.0.0.1:{port}")
    assert is_unknown(target) is (profile == "stomp")
    assert ("consumer-window" in identity.capabilities) is ("2.56" in server)
    if profile != "stomp":
        assert identity.deviations == target_file.load(profile).identity.deviations


@pytest.mark.parametrize("stated", ["like=none", "profile=any", "like=artemis"])
def test_what_the_user_states_comes_before_what_a_broker_calls_itself(stated: str) -> None:
    with listening(stomp("RabbitMQ/4.0.5", "/")) as port:
        target = address(f"stomp://127.0.0.1:{port}?{stated}")
        found = target.discover()
    assert (found.broker, found.version) == ("RabbitMQ", "4.0.5")
    assert "own word" not in found.judged_as
    assert target.identity.profile.name != "rabbitmq"
    assert target.identity.profile.parameters["stomp_host"] == "/"


def test_a_file_may_leave_the_family_to_the_broker(tmp_path: Path) -> None:
    path = tmp_path / "mine.target.toml"
    with listening(stomp("RabbitMQ/3.10.8")) as port:
        path.write_text(f'kind = "address"\nendpoints = {{ stomp = "127.0.0.1:{port}" }}\n')
        found = address(str(path))
        assert found.discover().judged_as.startswith("judged as RabbitMQ 3.10.8")
    assert (found.identity.name, found.identity.profile.name) == ("mine", "rabbitmq")
    older = target_file.load("rabbitmq3").identity
    assert found.identity.profile.parameters["anycast_node"] == "/queue/{name}"
    assert found.identity.absent["amqp-modified"] == older.absent["amqp-modified"]


def test_a_websocket_alone_is_a_stranger() -> None:
    assert is_unknown(address("ws://127.0.0.1:1/path"))
    assert not is_unknown(address("ws://127.0.0.1:1/path?stomp_host=mine"))


def test_a_dry_run_lists_the_cases_of_the_family(capsys: pytest.CaptureFixture[str]) -> None:
    for server, skipped in (("ActiveMQ-Artemis/2.56.0", False), ("", True)):
        with listening(stomp(server)) as port:
            asked = Asked((f"stomp://127.0.0.1:{port}",), ("flow",))
            assert judging.dry_run(asked, as_json=False) == 0
        printed = capsys.readouterr()
        assert ("judged as Artemis 2.56.0" in printed.err) is not skipped
        assert ("no connection-ttl" in printed.out) is skipped
    assert judging.dry_run(asked, as_json=True) == 0
    assert "listed as for an unknown broker: " in capsys.readouterr().err


@pytest.mark.parametrize("host", ["/", "localhost", "default"])
def test_the_virtual_host_that_admits_us_is_kept(host: str) -> None:
    with listening(stomp("", "/")) as first, listening(amqp091("RabbitMQ", host)) as second:
        for url in (
            f"amqp://127.0.0.1:{second},stomp://127.0.0.1:{first}",
            f"stomp://127.0.0.1:{first},amqp://127.0.0.1:{second}",
        ):
            target = address(url)
            assert target.discover().judged_as.startswith("judged as RabbitMQ 1.5")
            parameters = target.identity.profile.parameters
            assert (parameters["stomp_host"], parameters["amqp091_host"]) == ("/", host)
            assert "amqp" not in target.identity.capabilities


def test_extensions_are_those_that_a_broker_announces() -> None:
    with listening(amqp091("Own", "/")) as port:
        target = address(f"amqp://127.0.0.1:{port}")
        target.discover()
    identity = target.identity
    assert {"amqp091", "amqp091-confirms"} <= identity.capabilities
    assert "amqp091-nack" not in identity.capabilities
    assert identity.absent["amqp091-nack"] == "the broker does not announce basic.nack"


def test_a_host_that_admits_nobody_is_one_sentence() -> None:
    with listening(amqp091("Own", "elsewhere")) as port:
        target = address(f"amqp://127.0.0.1:{port}")
        with pytest.raises(SetUpFailed, match="refused the connection over AMQP 0-9-1: no such"):
            target.discover()


def test_what_each_virtual_host_answers_is_said() -> None:
    def serve(client: socket.socket) -> None:
        wrong = b"wrong login" if b"\nhost:/\n" in client.recv(4096) else b"no such host"
        client.sendall(b"ERROR\nmessage:" + wrong + b"\n\n\0")

    with listening(serve) as port:
        target = address(f"stomp://127.0.0.1:{port}")
        with pytest.raises(SetUpFailed, match=r"'localhost': .*no such host.* '/': .*wrong login"):
            target.discover()


@pytest.mark.parametrize("behaviour", sorted(SERVERS))
@pytest.mark.parametrize("scheme", ["stomp", "amqp"])
def test_discovery_ends_whatever_a_broker_does(
    behaviour: str, scheme: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dialogue, "PROBE_TIMEOUT_S", 0.5)
    problem = ""
    with listening(SERVERS[behaviour]) as port:
        try:
            problem = address(f"{scheme}://127.0.0.1:{port}").discover().judged_as
        except SetUpFailed as refused:
            problem = str(refused)
    said = "judged by the specifications alone", f"127.0.0.1:{port} "
    assert problem.startswith(said)
    assert "\n" not in problem


@pytest.mark.parametrize("answer", [amqp_codec.protocol_header(), b""])
def test_a_broker_without_sasl_is_greeted_without(answer: bytes) -> None:
    def serve(client: socket.socket) -> None:
        if client.recv(8) != amqp_codec.protocol_header():
            client.sendall(answer)
            return
        client.sendall(amqp_codec.protocol_header())
        client.recv(4096)
        opened = types.encode(amqp_codec.composite("open", {"container-id": "own"}))
        client.sendall(amqp_codec.encode_frame(opened))

    with listening(serve) as port:
        target = address(f"amqp://127.0.0.1:{port}")
        target.discover()
    assert target.identity.profile.parameters["amqp_sasl"] == amqp_codec.NO_SASL
    assert "amqp" in target.identity.capabilities
