"""TLS over real sockets: the broker's side and the harness's, with each other and with Python's
own."""

import json
import os
import socket
import ssl
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from importlib.resources import files
from pathlib import Path

import pytest

from brokerproof.harness.model.broker_io import (
    BytesReceived,
    Close,
    Connected,
    Effect,
    Input,
    PeerGone,
    SendBytes,
)
from brokerproof.harness.model.enums import CloseHow
from brokerproof.harness.targets import certificates
from brokerproof.harness.worlds.tls import (
    CERTIFIED,
    NOBODY,
    STRANGER,
    Certificate,
    Tls,
    TlsFailed,
    TlsLayer,
)
from brokerproof.reference_broker.protocols.amqp10 import headers
from brokerproof.reference_broker.runtime import listening
from brokerproof.reference_broker.settings.acceptor import Acceptor
from brokerproof.reference_broker.settings.acceptor import Tls as Served
from brokerproof.suites.units.reference_broker.runtime.test_asyncio_server import (
    Echo,
    client,
    exactly,
    serving,
)

FIXTURES = Path(str(files("brokerproof.fixtures"))) / "brokers" / "artemis" / "broker.xml"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("certificates")
    certificates.make(made)
    return made


@pytest.fixture
def acceptor(folder: Path) -> Acceptor:
    tls = Served(
        folder / certificates.SERVER,
        trust_store=folder / certificates.AUTHORITY,
        client_certificate="want",
    )
    return Acceptor("tls", protocols=("STOMP",), tls=tls)


def trusted(folder: Path, shown: Certificate | None = None) -> ssl.SSLContext:
    return Tls(folder / certificates.AUTHORITY, certificates=folder).context(shown)


def said_and_heard(port: int, context: ssl.SSLContext) -> bytes:
    with spoken(port, context) as peer:
        peer.sendall(b"x")
        return peer.recv(1)


@contextmanager
def spoken(port: int, context: ssl.SSLContext) -> Iterator[ssl.SSLSocket]:
    with client(port) as plain, context.wrap_socket(plain, server_hostname="127.0.0.1") as secured:
        yield secured


def test_bytes_come_back_and_nobody_else_could_read_them(folder: Path, acceptor: Acceptor) -> None:
    broker = Echo()
    body = bytes(range(256)) * 4096  # many records, more than one read
    with serving(broker, acceptor) as ports, spoken(ports["tls"], trusted(folder)) as peer:
        peer.sendall(body)
        got = bytearray()
        while len(got) < len(body):
            got += peer.recv(65536)
        assert bytes(got) == body
    found = b"".join(input_.data for input_ in broker.inputs if isinstance(input_, BytesReceived))
    assert found == body
    assert broker.inputs[0].certificate is None  # type: ignore[union-attr]


@pytest.mark.parametrize("shown", [CERTIFIED, NOBODY])
def test_the_subject_of_the_certificate_is_told(
    folder: Path, acceptor: Acceptor, shown: Certificate
) -> None:
    broker = Echo()
    with serving(broker, acceptor) as ports, spoken(ports["tls"], trusted(folder, shown)) as peer:
        peer.sendall(b"x")
        assert peer.recv(1) == b"x"
    assert isinstance(broker.inputs[0], Connected)
    assert broker.inputs[0].certificate == shown.subject


@pytest.mark.parametrize(
    ("client_certificate", "shown"), [("want", STRANGER), ("need", None), ("need", STRANGER)]
)
def test_whom_the_trust_store_does_not_vouch_for_is_not_connected(
    folder: Path, acceptor: Acceptor, client_certificate: str, shown: Certificate | None
) -> None:
    assert acceptor.tls is not None
    broker, strict = (
        Echo(),
        replace(acceptor, tls=replace(acceptor.tls, client_certificate=client_certificate)),
    )
    with serving(broker, strict) as ports, pytest.raises(OSError):
        said_and_heard(ports["tls"], trusted(folder, shown))
    assert broker.inputs == []


def test_the_brokers_end_is_said_in_tls_behind_all_bytes(folder: Path, acceptor: Acceptor) -> None:
    def behave(now: int, event: Input) -> list[Effect] | None:
        return (
            [SendBytes(event.conn, b"ERROR" * 50_000), Close(event.conn)]
            if isinstance(event, BytesReceived)
            else None
        )

    with serving(Echo(behave), acceptor) as ports, spoken(ports["tls"], trusted(folder)) as peer:
        peer.sendall(b"x")
        got = b""
        while piece := peer.recv(65536):  # a close without close_notify would raise
            got += piece
        assert got == b"ERROR" * 50_000


@pytest.mark.parametrize("how", ["close_notify", "FIN"])
def test_what_came_before_the_peers_end_counts(folder: Path, acceptor: Acceptor, how: str) -> None:
    broker = Echo()
    with serving(broker, acceptor) as ports, client(ports["tls"]) as plain:
        layer = TlsLayer(trusted(folder), "127.0.0.1")
        plain.sendall(layer.outgoing())
        while not layer.established:
            layer.receive(plain.recv(65536))
            plain.sendall(layer.outgoing())
        layer.write(b"last words")
        if how == "close_notify":
            layer.close()
        plain.sendall(layer.outgoing())
        if how == "FIN":
            plain.shutdown(socket.SHUT_WR)
        gone = broker.wait_for(PeerGone)
        while (data := plain.recv(65536)) and not layer.ended:
            layer.receive(data)
    assert gone == [PeerGone(1, CloseHow.EOF)]
    assert [input_.data for input_ in broker.inputs if isinstance(input_, BytesReceived)] == [
        b"last words"
    ]


@pytest.mark.parametrize(
    "data", [b"CONNECT\naccept-version:1.2\n\n\0", b"GET / HTTP/1.1\r\n\r\n", bytes(100)]
)
def test_what_is_no_tls_is_closed_and_nobody_learns_of_it(acceptor: Acceptor, data: bytes) -> None:
    broker = Echo()
    with serving(broker, acceptor) as ports, client(ports["tls"]) as plain:
        plain.sendall(data)
        while plain.recv(65536):  # possibly an alert, then the close
            pass
    assert broker.inputs == []


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize(
    ("versions", "offered", "agreed"),
    [
        (("TLSv1.2", "TLSv1.3"), ssl.TLSVersion.TLSv1_1, None),
        (("TLSv1.2", "TLSv1.3"), ssl.TLSVersion.TLSv1, None),
        (("TLSv1.2", "TLSv1.3"), ssl.TLSVersion.TLSv1_2, "TLSv1.2"),
        (("TLSv1.2", "TLSv1.3"), ssl.TLSVersion.TLSv1_3, "TLSv1.3"),
        (("TLSv1.3",), ssl.TLSVersion.TLSv1_2, None),
        (("TLSv1.2",), ssl.TLSVersion.TLSv1_3, None),
    ],
)
def test_a_client_of_another_version_is_not_connected(
    folder: Path,
    acceptor: Acceptor,
    versions: tuple[str, ...],
    offered: ssl.TLSVersion,
    agreed: str | None,
) -> None:
    assert acceptor.tls is not None
    acceptor = replace(acceptor, tls=replace(acceptor.tls, versions=versions))
    context = trusted(folder)
    # the broker, not the client, should reject old versions
    context.set_ciphers("ALL:@SECLEVEL=0")
    context.minimum_version = context.maximum_version = offered
    broker = Echo()
    with serving(broker, acceptor) as ports:
        if agreed is not None:
            with spoken(ports["tls"], context) as session:
                assert session.version() == agreed
            return
        with pytest.raises(OSError), spoken(ports["tls"], context):
            pass
    assert broker.inputs == []


def test_whoever_never_agrees_on_tls_is_cut(acceptor: Acceptor) -> None:
    hasty = replace(acceptor, handshake_timeout_ms=100)
    with serving(Echo(), hasty) as ports, client(ports["tls"]) as plain:
        assert plain.recv(1) == b""


# --- the header of AMQP ---------------------------------------------------------------------------


@pytest.mark.parametrize("cut", [1, 4, 5, 8])
def test_tls_begins_behind_its_header(folder: Path, acceptor: Acceptor, cut: int) -> None:
    broker, both = Echo(), replace(acceptor, protocols=("AMQP",))
    with serving(broker, both) as ports, client(ports["tls"]) as plain:
        plain.sendall(headers.TLS[:cut])
        layer = TlsLayer(trusted(folder), "127.0.0.1")
        plain.sendall(headers.TLS[cut:] + layer.outgoing())
        assert exactly(plain, 8) == headers.TLS
        while not layer.established:
            layer.receive(plain.recv(65536))
            plain.sendall(layer.outgoing())
        layer.write(headers.SASL)
        plain.sendall(layer.outgoing())
        assert layer.receive(plain.recv(65536)) == headers.SASL


@pytest.mark.parametrize(
    "data", [headers.AMQP, headers.SASL, b"AMQP\x02\x01\x00\x01", b"AMQP\x03", b"AMQPxyz"]
)
def test_another_header_is_answered_with_that_of_tls(acceptor: Acceptor, data: bytes) -> None:
    broker, both = Echo(), replace(acceptor, protocols=("AMQP", "STOMP"))
    with serving(broker, both) as ports, client(ports["tls"]) as plain:
        plain.sendall(data)
        assert exactly(plain, 8) == headers.TLS
        assert plain.recv(1) == b""
    assert broker.inputs == []


def test_tls_from_the_first_byte_where_amqp_is_spoken(folder: Path, acceptor: Acceptor) -> None:
    with (
        serving(Echo(), replace(acceptor, protocols=("AMQP",))) as ports,
        spoken(ports["tls"], trusted(folder)) as peer,
    ):
        peer.sendall(b"AMQP")
        assert peer.recv(4) == b"AMQP"


# --- files ----------------------------------------------------------------------------------------


def refusal(acceptor: Acceptor, **changes: object) -> str:
    assert acceptor.tls is not None
    with pytest.raises(listening.CannotListen) as caught:
        listening.layers(replace(acceptor, tls=replace(acceptor.tls, **changes)))  # type: ignore[arg-type]
    return str(caught.value)


def test_files_that_cannot_be_used_are_one_sentence(
    folder: Path, acceptor: Acceptor, tmp_path: Path
) -> None:
    nothing = tmp_path / "nothing.pem"
    assert refusal(acceptor, key_store=nothing).startswith(
        f"acceptor 'tls' cannot speak TLS: {nothing} does not exist; keyStorePath should name"
    )
    text = tmp_path / "text.pem"
    text.write_text("no PEM")
    assert f"{text} cannot be used" in refusal(acceptor, key_store=text)
    assert "it should hold, in PEM, a certificate and its key" in refusal(
        acceptor, key_store=folder / certificates.AUTHORITY
    )
    assert f"{text} cannot be used (no certificate in it)" in refusal(acceptor, trust_store=text)
    assert f"{text} names no file with a key" in refusal(
        acceptor, key_store=text, key_store_type="PEMCFG"
    )


def test_a_pemcfg_names_its_files(folder: Path, acceptor: Acceptor, tmp_path: Path) -> None:
    whole = (folder / certificates.SERVER).read_text()
    end = whole.index("-----BEGIN CERTIFICATE")
    (tmp_path / "key.pem").write_text(whole[:end])
    (tmp_path / "chain.pem").write_text(whole[end:])
    (tmp_path / "store.properties").write_text(
        "alias=a\nsource.key = key.pem\nsource.cert = chain.pem\n"
    )
    assert acceptor.tls is not None
    cfg = replace(acceptor.tls, key_store=tmp_path / "store.properties", key_store_type="PEMCFG")
    with (
        serving(Echo(), replace(acceptor, tls=cfg)) as ports,
        spoken(ports["tls"], trusted(folder)) as peer,
    ):
        peer.sendall(b"x")
        assert peer.recv(1) == b"x"


# --- the client's side ----------------------------------------------------------------------------


def handshake(port: int, tls: Tls, host: str = "127.0.0.1") -> TlsLayer:
    layer = TlsLayer(tls.context(), host)
    with client(port) as plain:
        plain.sendall(layer.outgoing())
        while not layer.established and not layer.failed and (data := plain.recv(65536)):
            layer.receive(data)
            plain.sendall(layer.outgoing())
    return layer


def test_a_client_believes_only_whom_it_should(
    folder: Path, acceptor: Acceptor, tmp_path: Path
) -> None:
    other = tmp_path / "others"
    certificates.make(other)
    with serving(Echo(), acceptor) as ports:
        port = ports["tls"]
        assert handshake(port, Tls(folder / certificates.AUTHORITY)).established
        assert "not trusted" in handshake(port, Tls(other / certificates.AUTHORITY)).failed
        assert "is not trusted" in handshake(port, Tls(None)).failed
        assert (
            "Hostname mismatch"
            in handshake(port, Tls(folder / certificates.AUTHORITY), "example.org").failed
        )
        assert handshake(port, Tls(None, verify=False), "example.org").established
    assert Tls(None, verify=False).words() == "TLS, the broker's certificate NOT verified"
    with pytest.raises(TlsFailed, match="there is no certificate"):
        Tls(None).context(CERTIFIED)


def test_no_key_of_an_authority_is_written_down(folder: Path) -> None:
    assert b"PRIVATE KEY" not in (folder / certificates.AUTHORITY).read_bytes()
    held = [path for path in folder.iterdir() if path.name != certificates.AUTHORITY]
    assert {path.name for path in held} == {
        certificates.SERVER,
        CERTIFIED.file,
        NOBODY.file,
        STRANGER.file,
    }
    assert all(path.stat().st_mode & 0o077 == 0 for path in held)


def test_the_command_tells_its_ports_with_tls(folder: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "brokerproof.reference_broker",
        "--config",
        str(FIXTURES),
        "--any-port",
    ]
    environment = {**os.environ, certificates.FOLDER: str(folder)}
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment) as process:
        assert process.stdout is not None
        try:
            line = json.loads(process.stdout.readline())
            ports: Callable[[str], int] = line["acceptors"].__getitem__
            assert line["tls"] == ["stomp-tls", "stomp-tls-need", "wss", "amqp-tls"]
            assert (line["stomp"], line["stomp+ssl"]) == (ports("stomp"), ports("stomp-tls"))
            assert (line["amqp"], line["amqps"]) == (ports("amqp"), ports("amqp-tls"))
            with spoken(line["stomp+ssl"], trusted(folder)) as peer:
                peer.sendall(b"CONNECT\nlogin:brokerproof\npasscode:brokerproof\n\n\0")
                assert peer.recv(9) == b"CONNECTED"
        finally:
            process.terminate()
