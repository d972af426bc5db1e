"""The tutorial's gate on two real Artemis releases: it stops the one that breaks a promise.

These tests need Maven and start brokers, so they are not collected by default: name the file, or
run ``tox -e upgrade``. The commands are those of the tutorial's last step.
"""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

TUTORIAL = Path(__file__).resolve().parents[2] / "docs" / "tutorials" / "gate-an-upgrade.md"
RELEASES = re.compile(r"^```bash\n(.*?)^```", re.MULTILINE | re.DOTALL)
EXITS = re.compile(r"# exits with (\d+)$")


def test_the_gate_names_what_changed_between_two_releases(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    (block,) = RELEASES.findall(TUTORIAL.read_text("utf-8"))
    printed = []
    for line in block.replace("\\\n", " ").splitlines():
        command = shlex.split(line, comments=True)
        assert command[0] == "brokerproof"
        command[:1] = [sys.executable, "-m", "brokerproof.harness.commands.cli"]
        ran = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
        stated = EXITS.search(line)
        expected = int(stated.group(1)) if stated else 0
        assert ran.returncode == expected, f"{line}\n{ran.stdout}\n{ran.stderr}"
        printed.append(ran.stdout + ran.stderr)
    _, rollback, differences = printed
    case = "delivery.expiry.a_message_lives_as_long_as_its_ttl_says"
    assert rollback.index("Compared with newer: 1 worse") < rollback.index("FAIL  artemis-history")
    assert f"PASS → FAIL in {case}" in rollback
    assert "ARTEMIS-CONCEPTS-queue-1" in rollback
    assert f"worse: artemis-history@2.35.0 {case}: PASS → FAIL" in differences
