"""Commands that only look something up import no broker, client, engine or test framework: users
would wait for these imports at every ``--help``. The test counts modules instead of seconds, which
would depend on the host.
"""

import json
import subprocess
import sys

import pytest

HEAVY = {
    *("pyspark", "py4j", "pyarrow", "numpy", "pandas", "hypothesis", "pytest", "_pytest"),
    *("proton", "cproton", "stomp", "pika", "pamqp", "h2", "h11", "wsproto", "playwright"),
    *("cryptography", "trustme", "lxml", "lark", "dpkt", "docker", "testcontainers", "jinja2"),
}
LISTED = """
import json, sys
sys.argv = ["brokerproof", *json.loads(sys.argv[1])]
from brokerproof.harness.commands import cli
try:
    cli.main()
finally:
    sys.stderr.write(json.dumps(sorted(name.partition(".")[0] for name in sys.modules)))
"""


def imported_by(*arguments: str) -> set[str]:
    """Return the top-level modules that a command has imported when it ends."""
    ran = subprocess.run(
        [sys.executable, "-c", LISTED, json.dumps(arguments)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr[-2000:]
    return set(json.loads(ran.stderr))


@pytest.fixture(scope="module", autouse=True)
def index() -> None:
    """Collect the cases once; this happens only after a change. The tests measure later calls."""
    imported_by("cases", "--json")


@pytest.mark.parametrize(
    "arguments",
    [
        ("--help",),
        ("run", "--help"),
        ("report", "--help"),
        ("judge", "--help"),
        ("targets",),
        ("cases", "--area", "heartbeat"),
        ("requirements", "--source", "stomp12"),
        ("list",),
        ("explain", "STOMP12-HB-09"),
    ],
    ids=" ".join,
)
def test_a_command_that_looks_something_up_is_light(arguments: tuple[str, ...]) -> None:
    heavy = imported_by(*arguments) & HEAVY
    assert not heavy, (
        f"brokerproof {' '.join(arguments)} imports {', '.join(sorted(heavy))}: import it in the"
        " function that needs it"
    )


def test_heavy_imports_are_seen() -> None:
    assert "trustme" in imported_by("run", "--target", "reference", "--dry-run")
