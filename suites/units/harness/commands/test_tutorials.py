"""The tutorials work as written: every shell block runs, in order, in an empty folder."""

import json
import re
import shlex
import socket
import subprocess
import sys
from pathlib import Path

import pytest

TUTORIALS = Path(__file__).resolve().parents[4] / "docs" / "tutorials"
BLOCK = re.compile(r"^```sh\n(.*?)^```", re.MULTILINE | re.DOTALL)
PORT = "61955"
"""The port in a tutorial. The test uses another one, because this one may be in use."""
EXIT = re.compile(r"# exits with (\d+)$")


def commands(document: str) -> list[tuple[str, int]]:
    """Return the commands of a tutorial, each with the exit code that it states (0 by default)."""
    text = "".join(BLOCK.findall((TUTORIALS / document).read_text())).replace("\\\n", " ")
    stated = []
    for line in text.splitlines():
        code = EXIT.search(line)
        stated.append((EXIT.sub("", line), int(code.group(1)) if code else 0))
    return stated


@pytest.fixture
def shell(tmp_path: Path) -> Path:
    launcher = tmp_path / "bin" / "brokerproof"
    launcher.parent.mkdir()
    python = shlex.quote(sys.executable)
    launcher.write_text(f'#!/bin/sh\nexec {python} -m brokerproof.harness.commands.cli "$@"\n')
    launcher.chmod(0o755)
    return tmp_path


def printed_by(document: str, shell: Path) -> list[str]:
    printed = []
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = str(listener.getsockname()[1])
    for stated, code in commands(document):
        command = stated.replace(PORT, port)
        ran = subprocess.run(
            ["/bin/bash", "-c", f'PATH="$PWD/bin:$PATH"; {command}'],
            cwd=shell,
            capture_output=True,
            text=True,
            check=False,
        )
        assert ran.returncode == code, f"{command}\n{ran.stdout}\n{ran.stderr}"
        printed.append(ran.stdout + ran.stderr)
    return printed


def test_find_the_faults_of_a_new_broker(shell: Path) -> None:
    _, judged, explained, kept, _, _, again, _ = printed_by("find-faults.md", shell)
    causes = dict(
        re.findall(
            r"^FAIL .*\n  .*(HB-\d+) · .*\n  at worst .*\n +observed (.*)", judged, re.MULTILINE
        )
    )
    assert set(causes) == {"HB-07", "HB-09"}, judged
    assert causes["HB-07"].startswith("0 heartbeats or frames in 3 periods of 500 ms")
    assert causes["HB-09"].startswith("the server was silent for ")
    assert "STOMP12-HB-07" in explained
    assert ".case.jsonl" in kept
    assert re.search(r"localhost:\d+, \d+ cases: \d+ PASS", again)
    dialect = json.loads((shell / "first" / "run.json").read_text())["targets"][0]["dialect"]
    assert "speaks STOMP 1.0, 1.1, 1.2" in dialect


def test_read_a_report(shell: Path) -> None:
    *_, summary, explained, fails, kept = printed_by("read-a-report.md", shell)
    assert "ARTEMIS-STOMP-ttl-3" in summary
    assert "ARTEMIS-STOMP-ttl-3" in explained
    assert int(fails) >= 1
    assert ".case.jsonl" in kept


def test_gate_an_upgrade(shell: Path) -> None:
    record, gate, *_, annotations, listed, again = printed_by("gate-an-upgrade.md", shell)
    assert re.search(r"heartbeats and TTL +kept", record)
    assert "Compared with last-good: " in gate
    first = gate.partition("Compared with last-good: ")[2].splitlines()
    assert re.match(r"\d+ worse", first[0]), "what changed is named first"
    assert "reference (baseline) is compared with mutant-ttl.modifier-forgotten (now)" in first[1]
    assert "PASS → FAIL" in first[2]
    assert "ARTEMIS-STOMP-ttl-3" in gate
    assert (shell / "summary.md").read_text().startswith("## brokerproof: ")
    assert "<failure" in (shell / "junit.xml").read_text()
    assert annotations.startswith("::error title=")
    assert "flow.connection_ttl." in listed
    assert "PASS" in again
