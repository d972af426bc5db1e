"""The process behind an address, whose threads are watched."""

import os
import socket
from pathlib import Path

import pytest

from brokerproof.harness.targets import target_file
from brokerproof.harness.targets.external import target as external
from brokerproof.harness.targets.external.listening_process import listening_process
from brokerproof.harness.targets.external.target import AddressTarget


@pytest.mark.parametrize("bound", ["127.0.0.1", "0.0.0.0"])
def test_a_process_of_this_machine_is_found_by_its_port(bound: str) -> None:
    with socket.create_server((bound, 0)) as listener:
        port = listener.getsockname()[1]
        assert listening_process("localhost", port) == os.getpid()
        assert listening_process("192.0.2.1", port) is None, "the host is another one"
    assert listening_process("localhost", port) is None


def test_a_name_that_nobody_knows_has_no_process() -> None:
    assert listening_process("nowhere.invalid", 61613) is None


def test_the_process_behind_an_address_is_watched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker = target_file.load("reference-real")
    broker.start(tmp_path)
    watched: list[int | None] = []
    monkeypatch.setattr(AddressTarget, "watch_the_host", lambda _, pid=None: watched.append(pid))
    try:
        host, port = broker.endpoints["stomp"]  # type: ignore[attr-defined]
        own = target_file.load(f"stomp://brokerproof:brokerproof@{host}:{port}")
        own.start(tmp_path)
        assert watched == [external.listening_process(host, port)]
        assert watched[0] is not None
    finally:
        broker.stop()
