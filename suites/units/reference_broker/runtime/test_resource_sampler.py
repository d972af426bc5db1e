"""The machine's readings that a reference broker gets in real time, and the alarms that it raises
itself."""

import resource
from pathlib import Path

import psutil
import pytest

from brokerproof.harness.cases.bench import Bench
from brokerproof.harness.protocols.amqp091.raw_peer import method
from brokerproof.harness.targets.target_file import load
from brokerproof.reference_broker.runtime import resource_sampler
from brokerproof.reference_broker.runtime.resource_sampler import ADDRESS_SPACE, Readings

TARGET = """
kind = "process"
profile = "rabbitmq"
command = [
  "{python}", "-m", "brokerproof.reference_broker", "--profile", "rabbitmq", "--config", "{config}", "--any-port", "--parent-pid", "{pid}",
]
config = "rabbitmq.conf"
login = "guest"
passcode = "guest"
default_acceptor = "amqp"
"""  # noqa: E501


def test_readings_are_those_of_this_process_and_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reading = Readings(tmp_path / "not" / "there" / "yet").read()
    assert 1_000_000 < reading.memory_used < psutil.virtual_memory().total
    assert reading.memory_total == psutil.virtual_memory().total
    assert reading.disk_free is not None
    assert 0 < reading.disk_free <= psutil.disk_usage(str(tmp_path)).total
    soft, _ = resource.getrlimit(resource.RLIMIT_AS)
    assert reading.address_space == (
        ADDRESS_SPACE[8] if soft == resource.RLIM_INFINITY else min(soft, ADDRESS_SPACE[8])
    )
    monkeypatch.setattr(resource, "getrlimit", lambda which: (2**31, 2**31))
    assert resource_sampler.Readings(tmp_path).read().address_space == 2**31


def test_a_disk_that_nobody_can_look_at_is_unknown(tmp_path: Path) -> None:
    folder = tmp_path / "gone"
    folder.mkdir()
    reader = Readings(folder)
    folder.rmdir()
    assert reader.read().disk_free is None


def test_a_broker_raises_and_clears_alarms_by_itself(tmp_path: Path) -> None:
    (tmp_path / "rabbitmq.conf").write_text(
        "disk_free_limit.absolute = 9000TB\nvm_memory_high_watermark.relative = 0.9\n"
    )
    file = tmp_path / "x.target.toml"
    file.write_text(TARGET)
    target = load(str(file))
    target.start(tmp_path / "logs")
    bench = Bench(target, (), label="readings")
    try:
        api, peer = bench.management(), bench.amqp091()
        node, short = api.until(api.node, lambda found: found["disk_free_alarm"])
        assert short, node
        assert (node["mem_alarm"], node["disk_free_limit"]) == (False, 9000 * 10**12)
        assert node["mem_limit"] == int(0.9 * psutil.virtual_memory().total)
        assert 1_000_000 < node["mem_used"] < node["mem_limit"]
        peer.publish(b"held", "q")
        assert peer.expect(method("connection.blocked", channel=0))["reason"] == "low on disk"
    finally:
        bench.close()
        target.stop()
