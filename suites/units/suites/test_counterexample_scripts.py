"""The scripts of docs/explanation/counterexamples find nothing on the reference broker, and detect
a broker whose connection ends without an answer."""

import json
import subprocess
import sys
from collections.abc import Iterator

import pytest

from brokerproof.suites.repo.sources import ROOT
from brokerproof.suites.units.drivers.misbehaving import ClosingAt, listening

SCRIPTS = ROOT / "docs" / "explanation" / "counterexamples"
HEADERS = (
    ("SEND", "content-length", "-5"),
    ("SEND", "priority", "-1"),
    ("SEND", "destination", ""),
    ("CONNECT", "heart-beat", "0,9999999999"),
)
CONVERSATIONS = (
    "resumed", "handle-max", "handle", "open", "open-idle-time-out", "open-max-frame-size",
    "property", "link-credit", "drain", "disposition",
)  # fmt: skip


@pytest.fixture(scope="module")
def ports() -> Iterator[dict[str, int]]:
    command = [sys.executable, "-m", "brokerproof.harness.commands.cli", "broker", "--any-port"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield json.loads(process.stdout.readline())["acceptors"]
        finally:
            process.kill()


def exit_status(script: str, *arguments: str) -> int:
    command = [sys.executable, str(SCRIPTS / script), *arguments]
    return subprocess.run(command, stdout=subprocess.DEVNULL, timeout=60, check=False).returncode


@pytest.mark.parametrize("header", HEADERS, ids=lambda header: " ".join(header))
def test_the_reference_works_with_a_header_or_refuses_it(
    ports: dict[str, int], header: tuple[str, str, str]
) -> None:
    address = f"127.0.0.1:{ports['stomp']}"
    assert exit_status("stomp_headers.py", *header, address, f"queue-{header[1]}") == 0


@pytest.mark.parametrize("name", CONVERSATIONS)
def test_the_reference_keeps_the_sentence_of_a_conversation(
    ports: dict[str, int], name: str
) -> None:
    address = f"127.0.0.1:{ports['amqp']}"
    assert exit_status("amqp10_conversations.py", name, address, f"queue-{name}") == 0


@pytest.mark.parametrize("header", HEADERS, ids=lambda header: " ".join(header))
def test_an_end_without_an_error_is_shown(
    ports: dict[str, int], header: tuple[str, str, str]
) -> None:
    with listening(ClosingAt(ports["stomp"], b"SEND")) as port:
        status = exit_status("stomp_headers.py", *header, f"127.0.0.1:{port}", "queue")
    assert status == 1


def test_a_client_that_is_not_connected_shows_nothing(ports: dict[str, int]) -> None:
    with listening(ClosingAt(ports["stomp"], b"CONNECT")) as port:
        status = exit_status("stomp_headers.py", *HEADERS[0], f"127.0.0.1:{port}", "queue")
    assert status == 2


@pytest.mark.parametrize("name", ["open", "open-idle-time-out", "open-max-frame-size"])
def test_an_open_that_ends_the_connection_without_a_close_is_shown(
    ports: dict[str, int], name: str
) -> None:
    described_open = b"\x00\x53\x10"
    with listening(ClosingAt(ports["amqp"], described_open)) as port:
        status = exit_status("amqp10_conversations.py", name, f"127.0.0.1:{port}", "queue")
    assert status == 1
