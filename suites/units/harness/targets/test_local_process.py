"""Processes of a target: start under a guard, wait, end, and no leftovers."""

import os
import signal
import subprocess
import sys
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from brokerproof.harness.targets import local_process
from brokerproof.harness.targets.failure import SetUpFailed

STUBBORN = (
    "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', flush=True);"
    " time.sleep(60)"
)


def wait_for(path: Path, text: str) -> None:
    with subprocess.Popen(
        ["tail", "-n", "+1", "-F", path], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as tail:
        assert tail.stdout is not None
        for line in tail.stdout:
            if text in line.decode():
                break
        tail.kill()


def process(
    tmp_path: Path, *command: str, grace_s: float = 5, free: bool = False
) -> local_process.NativeProcess:
    return local_process.NativeProcess(
        command, folder=tmp_path, console=tmp_path / "console", grace_s=grace_s, free=free
    )


def test_a_process_is_started_and_ended(tmp_path: Path) -> None:
    sleeper = process(tmp_path, "sleep", "60")
    pid = sleeper.start()
    assert local_process.started_at(pid) is not None
    assert not sleeper.ended()
    sleeper.stop()
    assert local_process.wait_for_end(pid, 0)
    assert sleeper.ended()
    sleeper.stop()


def test_what_ignores_sigterm_is_killed(tmp_path: Path) -> None:
    sleeper = process(tmp_path, sys.executable, "-c", STUBBORN, grace_s=0.1)
    pid = sleeper.start()
    wait_for(tmp_path / "console", "up")
    sleeper.stop()
    assert local_process.wait_for_end(pid, 0)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_process_does_not_outlive_a_harness_that_is_killed(
    tmp_path: Path, number: signal.Signals
) -> None:
    text = (
        "import sys; from pathlib import Path; from brokerproof.harness.targets.local_process"
        f" import NativeProcess\np = NativeProcess(['sleep', '60'], folder=Path({str(tmp_path)!r}),"
        f" console=Path({str(tmp_path / 'c')!r}))\nprint(p.start(), flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", text], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as harness:
        assert harness.stdout is not None
        pid = int(harness.stdout.readline())
        assert local_process.started_at(pid) is not None
        harness.send_signal(number)
        assert local_process.wait_for_end(pid, 10)


def test_a_process_dies_with_its_leash(tmp_path: Path) -> None:
    sleeper = process(tmp_path, "sleep", "60")
    pid = sleeper.start()
    parent = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    os.kill(parent, signal.SIGKILL)
    assert local_process.wait_for_end(pid, 10)
    assert sleeper.ended(5)
    sleeper.stop()


def test_a_free_process_goes_on_until_it_is_ended(tmp_path: Path) -> None:
    sleeper = process(tmp_path, "sleep", "60", free=True)
    pid = sleeper.start()
    assert not sleeper.ended()
    del sleeper
    assert not local_process.wait_for_end(pid, 0)
    local_process.end(pid, 5)
    assert local_process.wait_for_end(pid, 0)
    local_process.end(pid, 5)


def test_a_command_that_cannot_be_run_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(SetUpFailed, match=r"missing: cannot be run \(.*No such file"):
        process(tmp_path, str(tmp_path / "missing")).start()


def test_waiting_ends_with_the_process_or_the_time(tmp_path: Path) -> None:
    short = process(tmp_path, "true")
    short.start()
    with pytest.raises(SetUpFailed, match="true ended before it was ready: because"):
        short.wait_until_ready(lambda: False, within_s=10, reason=lambda: "because")
    long = process(tmp_path, "sleep", "60")
    pid = long.start()
    with pytest.raises(SetUpFailed, match=r"sleep was not ready after 0\.1 s: see .*console"):
        long.wait_until_ready(lambda: False, within_s=0.1, reason=lambda: "")
    assert local_process.wait_for_end(pid, 0)


def test_free_ports_differ_and_taken_ones_are_seen() -> None:
    ports = local_process.free_ports(5)
    assert len(set(ports)) == 5
    with HTTPServer(("127.0.0.1", ports[0]), BaseHTTPRequestHandler) as server:
        assert local_process.taken(ports) == [server.server_port]
        assert local_process.listens("127.0.0.1", server.server_port)
