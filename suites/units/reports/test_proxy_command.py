"""``brokerproof proxy`` between sockets; the test holds both ends."""

import json
import resource
import signal
import socket
import ssl
import struct
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import trustme

from brokerproof.harness.results import records

CONNECT = b"CONNECT\naccept-version:1.2\nhost:/\nheart-beat:100,100\n\n\0"
CONNECTED = b"CONNECTED\nversion:1.2\nheart-beat:100,100\n\n\0"
WAIT_S = 60.0
FULL = 60_000
"""The largest file, in bytes, in tests of a full disk."""


@dataclass
class Proxied:
    """A proxy, and the two ends of connections through it."""

    process: subprocess.Popen[str]
    folder: Path
    server: socket.socket
    port: int
    sockets: list[socket.socket] = field(default_factory=list)

    def connection(self) -> tuple[socket.socket, socket.socket]:
        application = socket.create_connection(("127.0.0.1", self.port), WAIT_S)
        broker, _ = self.server.accept()
        broker.settimeout(WAIT_S)
        self.sockets += (application, broker)
        return application, broker

    def says(self, *words: str) -> None:
        """Read the output until all these words have appeared."""
        assert self.process.stderr is not None
        missing = {*words}
        while missing:
            line = self.process.stderr.readline()
            assert line, f"it ended without {missing}"
            missing -= {word for word in missing if word in line}

    def end(self) -> tuple[int, str]:
        self.process.send_signal(signal.SIGTERM)
        told, _ = self.process.communicate(timeout=60)
        assert "footer" in json.loads((self.folder / "run.json").read_text())
        return self.process.returncode, told


@contextmanager
def proxied(folder: Path, *options: str, scheme: str = "", most: int = 0) -> Iterator[Proxied]:
    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))

    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(WAIT_S)
        target = (scheme or "{}").format(f"127.0.0.1:{server.getsockname()[1]}")
        command = [sys.executable, "-m", "brokerproof.harness.commands.cli", "proxy", *options]
        command += ["--listen", "127.0.0.1:0", "--target", target, "--out", str(folder)]
        with subprocess.Popen(
            [*command, "--no-report"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            preexec_fn=limit if most else None,
        ) as process:
            try:
                assert process.stderr is not None
                port = int(process.stderr.readline().rpartition(":")[2])
                yield (running := Proxied(process, folder, server, port))
                for end in running.sockets:
                    end.close()
            finally:
                process.kill()


def reset(end: socket.socket) -> None:
    end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    end.close()


def expected(told: str) -> int:
    """Return the exit code of a run with a violation, which is uncertain on a late host."""
    return 1 if "FAIL  silent" in told else 2 if "INCONCLUSIVE  silent" in told else -1


def drain(end: socket.socket) -> None:
    while end.recv(1 << 20):
        pass


@pytest.fixture
def proxy(tmp_path: Path) -> Iterator[Proxied]:
    with proxied(tmp_path / "run") as running:
        yield running


def test_halves_that_stop_beating_are_accused_by_name(proxy: Proxied) -> None:
    application, broker = proxy.connection()
    application.sendall(CONNECT)
    assert broker.recv(4096) == CONNECT
    broker.sendall(CONNECTED)
    assert application.recv(4096) == CONNECTED
    proxy.says("the client is silent for", "the broker is silent for")
    code, told = proxy.end()
    accused = {
        (result.target, requirement)
        for result in records.read(proxy.folder)
        for requirement in result.requirements
    }
    name = f"127.0.0.1:{proxy.server.getsockname()[1]}"
    assert accused == {(name, "STOMP12-HB-07"), ("application", "STOMP12-HB-09")}
    assert code == expected(told)
    assert "the broker was silent" in told
    assert application.recv(1) == b"", "the proxy has ended it"


def test_a_half_that_beats_is_not_accused(proxy: Proxied) -> None:
    application, broker = proxy.connection()
    application.sendall(CONNECT)
    broker.recv(4096)
    broker.sendall(CONNECTED.replace(b":100", b":90000"))
    proxy.says("the client is silent for")
    code, told = proxy.end()
    assert code == expected(told)
    assert "the client was silent" in told
    assert "the broker was silent" not in told


def test_ends_and_resets_reach_the_other_side(proxy: Proxied) -> None:
    application, broker = proxy.connection()
    application.sendall(b"first")
    application.shutdown(socket.SHUT_WR)
    assert broker.recv(64) == b"first"
    assert broker.recv(64) == b"", "the end of one direction is passed on"
    broker.sendall(b"last")
    assert application.recv(64) == b"last", "and the other one goes on"
    reset(broker)
    with pytest.raises(ConnectionResetError):
        application.recv(64)
    application, broker = proxy.connection()
    application.sendall(b"first")
    assert broker.recv(64) == b"first"
    reset(application)
    with pytest.raises(ConnectionResetError):
        broker.recv(64)
    assert proxy.end()[0] == 2, "nothing of a protocol: nothing was judged"


def test_a_side_that_does_not_read_holds_up_the_other_which_may_still_reset(proxy: Proxied) -> None:
    application, broker = proxy.connection()
    application.settimeout(0.5)
    with pytest.raises(TimeoutError):
        application.sendall(bytes(64 << 20))
    reset(application)
    with pytest.raises(ConnectionResetError):
        drain(broker)


def test_a_full_disk_ends_the_recording_and_not_the_traffic(tmp_path: Path) -> None:
    with proxied(tmp_path / "run", most=FULL) as proxy:
        application, broker = proxy.connection()
        application.sendall(CONNECT)
        broker.recv(4096)
        broker.sendall(CONNECTED)
        application.recv(4096)
        proxy.says("the client is silent for")
        application.sendall(b"SEND\ndestination:q\n\n" + bytes(range(1, 256)) * 1000 + b"\0")
        proxy.says("the recording ended (File too large); the application's traffic continues")
        broker.sendall(b"\n\n\n")
        assert application.recv(3, socket.MSG_WAITALL) == b"\n\n\n"
        code, told = proxy.end()
    assert code == expected(told)
    assert "the client was silent" in told, "what was recorded until then is judged"


def test_tls_is_offered_and_spoken(tmp_path: Path) -> None:
    authority = trustme.CA()
    certificate = authority.issue_cert("127.0.0.1")
    pem, ca = tmp_path / "server.pem", tmp_path / "ca.pem"
    certificate.private_key_and_cert_chain_pem.write_to_path(pem)
    authority.cert_pem.write_to_path(ca)
    client, server = (
        ssl.create_default_context(cafile=ca),
        ssl.create_default_context(ssl.Purpose.CLIENT_AUTH),
    )
    server.load_cert_chain(pem)
    scheme = "stomp+ssl://{}?ca=" + str(ca)
    with proxied(tmp_path / "run", "--certificate", str(pem), scheme=scheme) as proxy:
        raw = socket.create_connection(("127.0.0.1", proxy.port), WAIT_S)
        application = client.wrap_socket(raw, server_hostname="127.0.0.1")
        accepted, _ = proxy.server.accept()
        broker = server.wrap_socket(accepted, server_side=True)
        proxy.sockets += (application, broker)
        application.sendall(CONNECT)
        assert broker.recv(4096) == CONNECT
        broker.sendall(CONNECTED)
        assert application.recv(4096) == CONNECTED
        proxy.says("the broker is silent for")
        code, told = proxy.end()
        assert code == expected(told)
