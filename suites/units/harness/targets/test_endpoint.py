"""Endpoints: HOST:PORT and URLs, with or without TLS, and running targets over TLS."""

import contextlib
import dataclasses
import socket
import threading
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from brokerproof.harness.cases.bench import Bench
from brokerproof.harness.targets import certificates, endpoint, target_file
from brokerproof.harness.targets.external import dialogue
from brokerproof.harness.targets.failure import SetUpFailed
from brokerproof.harness.worlds.tls import CERTIFIED, Tls, TlsFailed
from brokerproof.suites.units.drivers import toml_tables
from brokerproof.suites.units.drivers.targets import started

TABLES = toml_tables.beside(__file__)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    certificates.make(tmp_path)
    return tmp_path


def test_endpoints_are_read(folder: Path) -> None:
    plain = endpoint.read("localhost:1", folder)
    assert (plain.scheme, plain.host, plain.port, plain.tls) == ("stomp", "localhost", 1, None)
    assert endpoint.read("[::1]:5672", folder).host == "::1"
    assert endpoint.read("amqps://h:5671", folder).tls == Tls()
    assert endpoint.read("stomp+ssl://h:1?ca=ca.pem&certificate=client.pem", folder).tls == Tls(
        folder / "ca.pem", own=folder / "client.pem"
    )
    known = endpoint.read(
        "stomp+ssl://me:p%20w@h:1?profile=x&insecure=true", folder, options=("profile",)
    )
    assert (known.tls, known.options, known.login) == (Tls(verify=False), {"profile": "x"}, "me")


@pytest.mark.parametrize(("text", "sentence"), TABLES["bad"])
def test_bad_endpoints_are_one_sentence(folder: Path, text: str, sentence: str) -> None:
    with pytest.raises(endpoint.BadEndpoint) as caught:
        endpoint.read(text, folder)
    assert sentence in str(caught.value)


def test_a_broker_with_tls_that_runs_already_is_a_target(folder: Path) -> None:
    with started("reference-real", folder) as running:
        host, port = running.endpoints["stomp-tls"]  # type: ignore[attr-defined]
        authority = running.tls["stomp-tls"].authority  # type: ignore[attr-defined]
        url = f"stomp+ssl://brokerproof:brokerproof@{host}:{port}"
        target = target_file.load(f"{url}?ca={authority}")
        facts = target.start(folder)
        assert (facts.broker, facts.tls) == ("brokerproof", "TLS, verified by ca.pem")
        bench = Bench(target, ("X",), label="x")
        peer = bench.stomp()
        assert peer.channel.security.startswith("TLSv1.3")
        assert bench.example_record.wire.unkept == "a connection used TLS"
        bench.close()
        target.stop()
        insecure = target_file.load(f"{url}?insecure=true")
        assert "NOT verified" in dataclasses.asdict(insecure.start(folder))["tls"]
        insecure.stop()
        with pytest.raises(
            SetUpFailed, match=r"its certificate is not trusted .* name its authority by ca=FILE"
        ):
            target_file.load(url).start(folder)
        in_the_clear = running.endpoints["stomp"][1]  # type: ignore[attr-defined]
        with pytest.raises(SetUpFailed, match="the TLS handshake failed"):
            target_file.load(f"stomp+ssl://127.0.0.1:{in_the_clear}?insecure=true").start(folder)


def test_a_key_with_a_passphrase_is_refused_and_no_passphrase_is_asked_for(tmp_path: Path) -> None:
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    shown = tmp_path / "client.pem"
    shown.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.BestAvailableEncryption(b"secret"),
        )
    )
    with pytest.raises(TlsFailed, match=r"client\.pem: the key is encrypted; use one without"):
        Tls(own=shown, verify=False).context()


def test_in_virtual_time_a_certificate_is_stated(tmp_path: Path) -> None:
    target = target_file.load("reference")
    target.start(tmp_path)
    bench = Bench(target, ("X",), label="x")
    peer = bench.peer(acceptor="stomp-tls", certificate=CERTIFIED)
    assert peer.channel.security == ""
    peer.connect({"accept-version": "1.2", "host": "localhost"})


@pytest.mark.parametrize(
    ("says", "sentence"),
    [
        (b"AMQP\x00\x00\x09\x01", "speaks AMQP, not STOMP; write amqp://HOST:PORT"),
        (b"\x15\x03\x01\x00\x02\x02\x46", r"speaks TLS, not STOMP; write stomp\+ssl://HOST:PORT"),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "speaks HTTP, not STOMP"),
        (
            b"220 mail.example ESMTP\r\n",
            "does not speak STOMP: to CONNECT it answered b'220 mail.example ESMTP",
        ),
        (b"", "closed the connection without an answer to CONNECT; is it a STOMP port"),
        (None, "did not answer CONNECT within 0.3 s; is it a STOMP port"),
    ],
)
def test_a_port_that_speaks_something_else_is_told(
    says: bytes | None, sentence: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dialogue, "PROBE_TIMEOUT_S", 0.3)
    with socket.create_server(("127.0.0.1", 0)) as server, contextlib.ExitStack() as kept:

        def serve() -> None:
            server.accept()[0].close()  # the first question is whether it accepts connections
            connection = kept.enter_context(server.accept()[0])
            if says is not None:
                connection.recv(4096)
                connection.sendall(says)
                connection.shutdown(socket.SHUT_WR)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        with pytest.raises(SetUpFailed, match=sentence):
            target_file.load(f"127.0.0.1:{server.getsockname()[1]}").start(tmp_path)
        thread.join()
