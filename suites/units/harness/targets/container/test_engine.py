"""Brokers as containers: requests to Docker, the message without Docker, and the shutdown."""

import gc
import json
import socket
import ssl
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner
from cryptography.x509 import IPAddress, SubjectAlternativeName, load_pem_x509_certificate
from cryptography.x509.oid import NameOID

from brokerproof.harness.commands.brokers import brokers
from brokerproof.harness.commands.doctor import doctor
from brokerproof.harness.model.broker_io import LimitsSet
from brokerproof.harness.model.enums import RoutingType
from brokerproof.harness.targets import certificates, parameters
from brokerproof.harness.targets.container import engine, recipes
from brokerproof.harness.targets.container.engine import Container
from brokerproof.harness.targets.container.recipes import RECIPES
from brokerproof.harness.targets.failure import SetUpFailed
from brokerproof.harness.targets.parameters import speaking
from brokerproof.harness.targets.sockets import SocketTarget
from brokerproof.harness.targets.standing_brokers import Listed
from brokerproof.harness.targets.target_file import BadTarget, load
from brokerproof.harness.worlds.tls import TlsLayer
from brokerproof.suites.units.drivers import docker_endpoint
from brokerproof.suites.units.drivers.docker_endpoint import Docker

pytest.importorskip("testcontainers", reason="the extra containers is not installed")

from testcontainers.core.config import ConnectionMode, testcontainers_config

from brokerproof.suites.units.drivers.targets import started

READY = {
    "rabbitmq": b"2026 [info] <0.9.0> Server startup complete; 5 plugins started.\n",
    "artemis": b"INFO  [org.apache.activemq.artemis.core.server] AMQ221007: Server is now active\n",
    "activemq": b" INFO | Apache ActiveMQ 6.3.1 (localhost, ID:x) started\n",
}


@pytest.fixture
def docker(monkeypatch: pytest.MonkeyPatch) -> Iterator[Docker]:
    monkeypatch.setenv("TESTCONTAINERS_RYUK_DISABLED", "true")
    monkeypatch.setattr(
        testcontainers_config, "connection_mode_override", ConnectionMode.docker_host
    )
    with docker_endpoint.serving() as served:
        monkeypatch.setenv("DOCKER_HOST", served.url)
        yield served


@pytest.mark.parametrize("broker", READY)
def test_a_broker_is_pulled_configured_started_and_removed(
    docker: Docker, tmp_path: Path, broker: str
) -> None:
    docker.prints = b"starting\n" + READY[broker]
    target = load(f"{broker}-container")
    facts = target.start(tmp_path)
    try:
        assert facts.broker.endswith("in a container")
        order = [
            request for request in docker.asked if request.startswith(("POST", "PUT", "DELETE"))
        ]
        copied = order.count("PUT /containers/c1/archive")
        assert order == [
            "POST /images/create",
            "POST /containers/create",
            *["PUT /containers/c1/archive"] * copied,
            "POST /containers/c1/start",
        ]
        bound = docker.created["HostConfig"]["PortBindings"]
        assert all(
            binding == [{"HostIp": "127.0.0.1", "HostPort": ""}] for binding in bound.values()
        ), bound
        for name in target.acceptors():
            host, port = target.world(0, None, lambda _: None).endpoint(name)  # type: ignore[attr-defined]
            with socket.create_connection((host, port), 5):
                pass
    finally:
        target.stop()
    assert docker.removed
    found = (tmp_path / f"{broker}-container" / "log" / "container.log").read_bytes()
    assert found == docker.prints
    target.stop()


def test_from_within_a_container_ports_are_reached_by_the_bridge(
    docker: Docker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        testcontainers_config, "connection_mode_override", ConnectionMode.gateway_ip
    )
    docker.prints = READY["activemq"]
    target = load("activemq-container")
    target.start(tmp_path)
    target.stop()
    assert all(
        binding[0]["HostIp"] == ""
        for binding in docker.created["HostConfig"]["PortBindings"].values()
    )


@pytest.mark.parametrize(
    ("cgroup", "is_direct"),
    [
        ("9:pids:/docker/c1\n", True),
        ("0::/../../system.slice/docker-c1.scope\n", True),
        ("0::/user.slice\n", False),
        (None, False),
    ],
)
def test_a_container_of_our_own_kernel_is_watched_and_reached_at_its_own_address(
    docker: Docker,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    cgroup: str | None,
    is_direct: bool,
) -> None:
    """The process is watched because only then a reset proves anything. On this machine, its id may
    belong to another process."""
    docker.prints, docker.process, docker.address = READY["rabbitmq"], 4711, "127.0.0.61"
    if cgroup is not None:
        (tmp_path / "proc" / "4711").mkdir(parents=True)
        (tmp_path / "proc" / "4711" / "cgroup").write_text(cgroup)
    monkeypatch.setattr(engine, "PROC", tmp_path / "proc")
    watched: list[int | None] = []
    monkeypatch.setattr(
        SocketTarget, "watch_the_host", lambda self, broker=None: watched.append(broker)
    )
    with started("rabbitmq-container", tmp_path) as target:
        world = target.world(0, None, lambda _: None)
        assert world.is_local is is_direct
        assert (world.endpoint("amqp") == ("127.0.0.61", 5672)) is is_direct  # type: ignore[attr-defined]
        assert watched == [4711 if is_direct else None]


def test_a_container_is_reached_by_its_published_ports_where_its_own_do_not_answer(
    docker: Docker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rootless Docker has its own network."""
    docker.prints, docker.process, docker.address = READY["rabbitmq"], 4711, "127.0.0.62"
    (tmp_path / "4711").mkdir()
    (tmp_path / "4711" / "cgroup").write_text("0::/docker/c1\n")
    monkeypatch.setattr(engine, "PROC", tmp_path)
    start = docker.start

    def lose_its_address() -> None:
        start()
        docker.direct.pop().close()

    monkeypatch.setattr(docker, "start", lose_its_address)
    with started("rabbitmq-container", tmp_path) as target:
        world = target.world(0, None, lambda _: None)
        assert not world.is_local
        assert world.endpoint("amqp")[0] == "127.0.0.1"  # type: ignore[attr-defined]


def test_rabbitmq_gets_its_file_its_listeners_and_its_plugins(
    docker: Docker, tmp_path: Path
) -> None:
    docker.prints = READY["rabbitmq"]
    target = load("rabbitmq-container")
    target.start(tmp_path)
    target.raise_alarm(target.world(0, None, lambda _: None), "memory")
    docker.exit_code = 69
    with pytest.raises(
        SetUpFailed,
        match=r"rabbitmqctl set_disk_free_limit 1000000: ended with 69 in rabbitmq:4.0-manag",
    ):
        target.clear_alarm(target.world(0, None, lambda _: None), "disk")
    docker.exit_code = 0
    target.set_limits(target.world(0, None, lambda _: None), LimitsSet(memory=0.5, disk=1000))
    docker.listening["15672/tcp"].close()
    with pytest.raises(SetUpFailed, match="management API did not answer"):
        target.provide("q", RoutingType.ANYCAST)
    target.stop()
    assert docker.created["Image"] == "rabbitmq:4.0-management"
    expected = {"5672/tcp", "61613/tcp", "15674/tcp", "15672/tcp"}
    assert set(docker.created["ExposedPorts"]) == expected
    assert b"default_user = brokerproof" in docker.files["/etc/rabbitmq/rabbitmq.conf"]
    assert (
        b"listeners.tcp.1 = 0.0.0.0:5672\nstomp.listeners.tcp.1 = 0.0.0.0:61613\n"
        in docker.files["/etc/rabbitmq/conf.d/90-harness.conf"]
    )
    found = docker.files["/etc/rabbitmq/enabled_plugins"]
    assert found == b"[rabbitmq_stomp,rabbitmq_web_stomp,rabbitmq_management].\n"
    assert docker.executed == [
        ["rabbitmqctl", "set_vm_memory_high_watermark", "0"],
        ["rabbitmqctl", "set_disk_free_limit", "1000000"],
        ["rabbitmqctl", "set_vm_memory_high_watermark", "0.500000000"],
        ["rabbitmqctl", "set_disk_free_limit", "1000"],
    ]


@pytest.mark.parametrize(
    ("version", "image"),
    [
        ("2.44.0", "apache/activemq-artemis:2.44.0"),
        ("2.50.0", "apache/artemis:2.50.0"),
        ("2.56.0", "apache/artemis:2.56.0"),
    ],
)
def test_artemis_images_moved_when_it_became_a_project_of_its_own(version: str, image: str) -> None:
    assert recipes.artemis_image(version) == image


@pytest.mark.parametrize(
    ("version", "image"),
    [
        ("5.18.7", "apache/activemq-classic:5.18.7"),
        ("5.19.3", "apache/activemq:5.19.3"),
        ("6.2.0", "apache/activemq-classic:6.2.0"),
        ("6.2.1", "apache/activemq:6.2.1"),
        ("6.3.1", "apache/activemq:6.3.1"),
    ],
)
def test_activemq_images_moved_within_two_lines_of_releases(version: str, image: str) -> None:
    assert recipes.activemq_image(version) == image


@pytest.mark.parametrize("broker", READY)
def test_a_container_is_judged_by_all_that_its_native_target_is_judged_by(broker: str) -> None:
    """The exceptions are capabilities that only a process on this machine can have."""
    native, container = load(broker).identity, load(f"{broker}-container").identity
    assert native.capabilities - container.capabilities <= {"page-files", "shipped-configuration"}
    assert container.capabilities <= native.capabilities


@pytest.mark.parametrize("broker", READY)
def test_acceptors_speak_what_those_of_the_native_target_speak(
    docker: Docker, tmp_path: Path, broker: str
) -> None:
    docker.prints = READY[broker]
    native, target = load(broker), load(f"{broker}-container")
    target.start(tmp_path)
    try:
        native.endpoints = target.endpoints  # type: ignore[attr-defined]
        assert target.acceptors() == native.acceptors()
        assert ("management" in target.acceptors()) == (broker == "rabbitmq")
        assert "management" not in speaking(target.acceptors(), "STOMP")
    finally:
        target.stop()


@pytest.mark.parametrize(
    ("killed", "words"),
    [
        (False, "its container ended with exit code 1"),
        (True, "its container ended with exit code 1 (out of memory)"),
    ],
)
def test_a_broker_that_went_away_is_told_from_one_that_does_not_answer(
    docker: Docker, tmp_path: Path, killed: bool, words: str
) -> None:
    docker.prints = READY["activemq"]
    target = load("activemq-container")
    assert isinstance(target, SocketTarget)
    assert not target.process_end()
    target.start(tmp_path)
    try:
        assert not target.process_end()
        docker.runs, docker.out_of_memory = False, killed
        assert target.process_end() == words
    finally:
        target.stop()


def test_a_classic_file_of_rabbitmq_is_named_to_it() -> None:
    path = Path(str(load("rabbitmq-container")._path)).with_name("classic.config")  # type: ignore[attr-defined]
    recipe = RECIPES["rabbitmq"](path, "3.13")
    assert recipe.environment == {"RABBITMQ_CONFIG_FILE": "/etc/rabbitmq/rabbitmq.config"}
    assert recipe.files["/etc/rabbitmq/rabbitmq.config"] == path.read_bytes()
    assert b"rabbitmq_amqp1_0" in recipe.files["/etc/rabbitmq/enabled_plugins"]


def test_artemis_listens_everywhere_and_has_certificates_that_do_not_last(
    docker: Docker, tmp_path: Path
) -> None:
    docker.prints = READY["artemis"]
    target = load("artemis-container@2.40.0")
    facts = target.start(tmp_path)
    assert len(facts.addresses) > 0
    assert facts.addresses == parameters.address_settings(target.config)  # type: ignore[attr-defined]
    kept = tmp_path / "artemis-container@2.40.0" / "etc"
    assert (kept / "brokerproof-certificates" / "ca.pem").is_file()
    assert "stomp-tls" in target.tls  # type: ignore[attr-defined]
    target.stop()
    assert not (kept / "brokerproof-certificates").exists()
    assert docker.created["Image"] == "apache/activemq-artemis:2.40.0"
    xml = docker.files["/var/lib/artemis-instance/etc-override/broker.xml"]
    assert b"tcp://0.0.0.0:61613" in xml
    assert b"127.0.0.1" not in xml.partition(b"<acceptors>")[2].partition(b"</acceptors>")[0]
    assert {"artemis-users.properties", "bootstrap.xml", "login.config"} <= {
        file.rpartition("/")[2] for file in docker.files
    }
    expected = ["JAVA_ARGS_APPEND=-DBROKERPROOF_CERTIFICATES=/etc/brokerproof-certificates"]
    assert docker.created["Env"] == expected


@pytest.mark.parametrize(
    ("mode", "host"),
    [(ConnectionMode.docker_host, "127.0.0.1"), (ConnectionMode.gateway_ip, "192.0.2.1")],
)
def test_certificates_are_valid_for_the_host_that_clients_connect_to(
    docker: Docker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: object, host: str
) -> None:
    monkeypatch.setattr(testcontainers_config, "connection_mode_override", mode)
    assert engine.published_host() == host
    docker.bridge["Gateway"] = host
    assert engine.published_host() == host
    config = Path(str(load("artemis-container")._path))  # type: ignore[attr-defined]
    recipe = RECIPES["artemis"](config, None, engine.published_host())
    name = f"{recipes.CERTIFICATES}/{certificates.SERVER}"
    server = load_pem_x509_certificate(recipe.files[name])
    names = server.extensions.get_extension_for_class(SubjectAlternativeName).value
    assert {host, "127.0.0.1"} <= {str(ip) for ip in names.get_values_for_type(IPAddress)}
    assert server.subject.get_attributes_for_oid(NameOID.COMMON_NAME)[0].value == host


def test_a_handshake_that_failed_is_described() -> None:
    context = ssl.create_default_context()
    layer = TlsLayer(context, "localhost")
    layer.receive(b"HTTP/1.1 400 Bad Request\r\n\r\n")
    assert layer.brief().startswith("no TLS: TLS was refused")
    assert TlsLayer(context, "localhost").brief() == "no TLS: the handshake is not done"


def test_activemq_gets_its_file(docker: Docker, tmp_path: Path) -> None:
    docker.prints = READY["activemq"]
    docker.images.add("apache/activemq:6.3.1")
    target = load("activemq-container")
    target.start(tmp_path)
    target.stop()
    assert "POST /images/create" not in docker.asked, "the image was here"
    assert b"//0.0.0.0:" in docker.files["/opt/apache-activemq/conf/activemq.xml"]
    assert docker.files["/opt/apache-activemq/conf/connection.security.enabled"] == b""
    assert docker.created["Env"] == [
        "JAVA_TOOL_OPTIONS=-Dbrokerproof.data=/opt/apache-activemq/data"
    ], "ACTIVEMQ_OPTS is the image's own"
    with pytest.raises(SetUpFailed, match="cannot raise an alarm for memory on this broker"):
        target.raise_alarm(target.world(0, None, lambda _: None), "memory")


def test_what_does_not_start_is_removed_and_one_sentence(
    docker: Docker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = Path(str(load("rabbitmq-container")._path))  # type: ignore[attr-defined]
    recipe = RECIPES["rabbitmq"](config, None)
    monkeypatch.setattr(engine, "START_S", 0.2)
    docker.prints = b"still busy\n"
    with pytest.raises(SetUpFailed) as failed:
        Container(recipe, tmp_path).start()
    assert (
        str(failed.value) == "rabbitmq:4.0-management: was not ready within 0.2 s; its last output:"
        f" 'still busy' (log: {tmp_path / 'log' / 'container.log'})"
    )
    assert docker.removed
    docker.runs, docker.prints = False, b"BOOT FAILED\n"
    with pytest.raises(
        SetUpFailed, match=r"ended before it was ready; its last output: 'BOOT FAILED'"
    ):
        Container(recipe, tmp_path).start()
    docker.offered = set()
    docker.images.clear()
    with pytest.raises(
        SetUpFailed,
        match=r"rabbitmq:4.0-management: could not be started \(.*manifest.*; see whether",
    ):
        Container(recipe, tmp_path).start()


def test_without_a_daemon_it_says_where_it_looked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/none.sock")
    with pytest.raises(SetUpFailed) as failed:
        load("rabbitmq-container").start(tmp_path)
    assert (
        str(failed.value)
        == f"rabbitmq:4.0-management: no Docker daemon answers at unix://{tmp_path}/none.sock"
        " (there is no such socket); start one, or name another with DOCKER_HOST"
    )
    assert engine.daemon() is None
    with socket.socket(socket.AF_UNIX) as ended:
        ended.bind(f"{tmp_path}/none.sock")  # nobody listens: a stale socket file
    with pytest.raises(SetUpFailed, match=r"none\.sock \(connection refused\); start one"):
        load("rabbitmq-container").start(tmp_path)
    assert engine.daemon() is None
    gc.collect()  # raises for a socket that was left open
    long = Path("/cache") / ("x" * 300)
    monkeypatch.setattr(
        "brokerproof.harness.commands.brokers.standing_brokers.listing",
        lambda: [Listed("artemis", "1.0", long, None)],
    )
    said = CliRunner().invoke(brokers, ["list"]).output
    assert str(long) in said, "a pipe gets whole paths"
    assert said.endswith("; there is no Docker here\n")
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))  # kept open, so that no other process listens there
        monkeypatch.setenv("DOCKER_HOST", f"tcp://127.0.0.1:{closed.getsockname()[1]}")
        with pytest.raises(
            SetUpFailed,
            match=r"no Docker daemon answers at tcp://127.0.0.1:\d+ \(.*refused.*\); start one",
        ):
            load("rabbitmq-container").start(tmp_path)


def test_the_daemon_is_named(docker: Docker) -> None:
    here = f"99.1 at {docker.url.replace('tcp', 'http')}"
    assert engine.daemon() == here
    said = CliRunner().invoke(brokers, ["list"]).output
    assert said.endswith(
        "Targets that run in containers: rabbitmq-container, artemis-container,"
        f" activemq-container; Docker {here}\n"
    )
    checks = {
        load["name"]: load for load in json.loads(CliRunner().invoke(doctor, ["--json"]).output)
    }
    assert checks["Docker"] == {"name": "Docker", "ok": True, "says": here, "needed": False}


def test_without_the_library_it_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "testcontainers.core.container", None)
    with pytest.raises(
        SetUpFailed,
        match=r"needs the library testcontainers; install it with: pip install 'brokerproof",
    ):
        load("activemq-container").start(tmp_path)


def test_a_target_names_a_broker_that_there_is(tmp_path: Path) -> None:
    file = tmp_path / "x.target.toml"
    file.write_text('kind = "container"\nprofile = "stomp"\nbroker = "kafka"\nconfig = "x"\n')
    with pytest.raises(
        BadTarget, match=r"broker is 'kafka'; it should be one of rabbitmq, artemis, activemq"
    ):
        load(str(file))
