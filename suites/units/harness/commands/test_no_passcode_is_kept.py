"""A run with a distinctive passcode over every protocol: none of the run's files contains the
passcode."""

import base64
import functools
import gzip
import re
import subprocess
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from urllib.parse import quote

import pyarrow.parquet as pq
import pytest

from brokerproof.harness.targets.sockets import SocketTarget
from brokerproof.suites.units.drivers.commands import command
from brokerproof.suites.units.drivers.targets import started

PASSCODE = "Unlikely/Canary+7f3d9c"
CASES = "authentication or security or opening"
FIXTURES = Path(str(files("brokerproof.fixtures"))) / "brokers"
TARGETS = {
    "reference": ("artemis", "artemis-users.properties", "brokerproof = brokerproof"),
    "reference-rabbitmq": ("rabbitmq", "rabbitmq.conf", "default_pass = brokerproof"),
    "reference-activemq": ("activemq", "activemq.xml", 'password="brokerproof"'),
}
"""By family, the file that has the user, and the user's entry in it."""


@functools.cache
def _needles() -> re.Pattern[bytes]:
    raw = PASSCODE.encode()
    inside = [base64.b64encode(bytes(padding) + raw)[4:-4] for padding in range(3)]
    spellings = [raw, raw.hex().encode(), raw.hex().upper().encode(), *inside]
    spellings += [quote(PASSCODE, safe="").encode(), quote(PASSCODE).encode()]
    spellings += [base64.urlsafe_b64encode(raw)[4:-4]]
    return re.compile(b"|".join(map(re.escape, spellings)))


def _target(folder: Path, name: str) -> Path:
    family, users, right = TARGETS[name.removesuffix("-real")]
    for path in (FIXTURES / family).iterdir():
        if path.is_file():
            (folder / path.name).write_bytes(path.read_bytes())
    text = (folder / users).read_text()
    assert right in text
    (folder / users).write_text(
        text.replace(right, right.removesuffix('"')[: -len("brokerproof")] + PASSCODE
                     + ('"' if right.endswith('"') else ""))
    )  # fmt: skip
    target = (FIXTURES / "reference" / f"{name}.target.toml").read_text()
    target = target.replace(f"../{family}/", "").replace(
        'passcode = "brokerproof"\n', 'passcode_env = "CANARY"\n'
    )
    path = folder / f"{name}.target.toml"
    path.write_text(target)
    return path


def _contents(path: Path) -> Iterator[bytes]:
    data = path.read_bytes()
    yield data
    if path.suffix == ".parquet":
        for column in pq.read_table(path).to_pydict().values():
            yield repr(column).encode("utf-8", "surrogatepass")
            yield b"\n".join(value for value in column if isinstance(value, bytes))
    if path.suffix == ".gz":
        yield gzip.decompress(data)
    if path.suffix in (".html", ".js"):
        for packed in re.findall(rb"H4sI[A-Za-z0-9+/]+={0,2}", data):
            yield gzip.decompress(base64.b64decode(packed))


def _holding_it(kept: list[Path]) -> list[str]:
    return [
        path.name for path in kept if any(_needles().search(content) for content in _contents(path))
    ]


@pytest.mark.parametrize("name", TARGETS)
def test_no_file_of_a_run_holds_the_passcode(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv("CANARY", PASSCODE)
    home = tmp_path / "target"
    home.mkdir()
    reported = name == "reference-rabbitmq"  # the fewest cases
    target = _target(home, name)
    out = tmp_path / "run"
    options = f"--seed 1 --effort smoke --case '{CASES}' {'' if reported else '--no-report'}"
    line = command(f"run --target {target} --out {out} {options}")
    done = subprocess.run(line, capture_output=True, check=False)
    assert done.returncode in (0, 1, 2), done.stderr.decode()
    kept = [path for path in out.rglob("*") if path.is_file()]
    names = {path.name for path in kept}
    assert {"run.json", "results.ndjson"} <= names
    if reported:
        assert "index.html" in names
    assert not _holding_it(kept)
    assert not _needles().search(done.stdout + done.stderr)
    trace = b"".join(
        content for path in kept if path.suffix == ".parquet" for content in _contents(path)
    )
    assert b"<passcode>" in trace or b"<response>" in trace or name == "reference-activemq"


def test_no_file_of_a_run_by_url_and_no_script_holds_the_passcode(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CANARY", PASSCODE)
    home, out = tmp_path / "target", tmp_path / "run"
    home.mkdir()
    with started(str(_target(home, "reference-real")), home) as broker:
        assert isinstance(broker, SocketTarget)
        (host, stomp), (_, amqp) = broker.endpoints["stomp"], broker.endpoints["amqp"]
        # The broker is not RabbitMQ, so a case fails and leaves a counterexample with its scripts.
        url = f"stomp://brokerproof@{host}:{stomp}?like=rabbitmq&passcode_env=CANARY&local=true"
        options = "--seed 1 --effort smoke --case 'rabbitmq_heart_beats or what_is_no_sasl'"
        where = f"--target '{url},amqp://{host}:{amqp}' --out {out}"
        line = command(f"run {where} {options} --no-report")
        done = subprocess.run(line, capture_output=True, check=False)
    assert done.returncode == 1, done.stderr.decode()
    kept = [path for path in out.rglob("*") if path.is_file()]
    assert {".py", ".jsonl", ".parquet"} <= {path.suffix for path in kept}
    assert not _holding_it(kept)
    assert not _needles().search(done.stdout + done.stderr)


def test_the_search_finds_what_it_should(tmp_path: Path) -> None:
    for position, data in enumerate(
        (
            b"x" + PASSCODE.encode(),
            base64.b64encode(b"me:" + PASSCODE.encode()),
            PASSCODE.encode().hex().encode(),
            quote(PASSCODE, safe="").encode(),
        )
    ):
        (tmp_path / "a").write_bytes(data)
        found = any(_needles().search(content) for content in _contents(tmp_path / "a"))
        assert found, position
