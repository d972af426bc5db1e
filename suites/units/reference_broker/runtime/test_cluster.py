"""Linked brokers: the scope of each one's alarms, and which one gets an input."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from brokerproof.harness.cases.bench import Bench
from brokerproof.harness.model.broker_io import (
    AlarmElsewhere,
    AtNode,
    LimitsSet,
    ResourcesRead,
    TimerFired,
)
from brokerproof.harness.model.time import seconds
from brokerproof.harness.targets.target_file import BadTarget, load
from brokerproof.reference_broker.kernel.alarms import Alarms
from brokerproof.reference_broker.runtime import cluster

READ = ResourcesRead(memory_used=100, memory_total=1000, disk_free=10**9)


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    target = load("reference-rabbitmq-cluster")
    target.start(tmp_path)
    bench = Bench(target, (), label="cluster")
    yield bench
    bench.close()
    target.stop()


def test_an_alarm_counts_everywhere_and_is_told_where_it_was_raised(bench: Bench) -> None:
    a, b = bench.management(), bench.management(acceptor="b.management")
    assert (a.overview()["node"], b.overview()["node"]) == ("a@localhost", "b@localhost")
    bench.raise_alarm("memory", node="b")
    assert [broker.node()["mem_alarm"] for broker in (a, b)] == [False, True]
    raised = [{"node": "b@localhost", "resource": "memory"}]
    assert [broker.ask("GET", "health/checks/alarms").json()["alarms"] for broker in (a, b)] == [
        raised,
        raised,
    ]
    expected = [200, 503]
    assert [broker.ask("GET", "health/checks/local-alarms").status for broker in (a, b)] == expected
    publisher = bench.amqp091()
    publisher.publish(b"x", "q")
    assert a.state_of(publisher, {"blocked"}) == ("blocked", True)
    assert [broker.get("connections") for broker in (b,)] == [[]], (
        "each node has its own connections"
    )
    bench.raise_alarm("disk")
    bench.clear_alarm("memory", node="b")
    assert a.state_of(publisher, {"running"}, seconds(1)) == ("blocked", False)
    bench.clear_alarm("disk")
    assert a.state_of(publisher, {"running"}) == ("running", True)


def test_alarms_of_a_resource_end_with_the_last_node(bench: Bench) -> None:
    told: list[tuple[str, bool]] = []
    alarms = Alarms(lambda resource, short: told.append((resource, short)))
    seen: list[bool] = []
    alarms.watchers[seen.append] = None
    alarms.set("memory", True)
    alarms.set("memory", True)
    alarms.set("memory", True, "b")
    alarms.set("disk", True, "b")
    assert (alarms.raised, alarms.own) == (("memory", "disk"), ("memory",))
    alarms.set("memory", False)
    assert (alarms.raised, alarms.own) == (("memory", "disk"), ())
    alarms.set("memory", False, "b")
    alarms.set("disk", False, "b")
    assert told == [("memory", True), ("memory", False)], "only what changes here is told, and once"
    assert seen == [True, False]
    assert alarms.all == ()


def test_inputs_go_to_their_node() -> None:
    made = cluster.make(None, {}, start=0)
    assert set(made.acceptors) == {"stomp", "b.stomp"}
    both = made.broker
    assert isinstance(both, cluster.Cluster)
    assert both.next_deadline() is None
    both.handle(0, AtNode("b", READ))
    both.handle(0, LimitsSet(memory=0))
    assert both.next_deadline() == seconds(1), (
        "b looks at its memory every second, a was told nothing"
    )
    assert both.handle(seconds(1), TimerFired()) == []
    assert both.next_deadline() == seconds(2)
    assert both.handle(seconds(1), AlarmElsewhere("c@localhost", "memory", True)) == []


def test_a_cluster_has_two_nodes(tmp_path: Path) -> None:
    (tmp_path / "rabbitmq.conf").write_text("")
    file = tmp_path / "x.target.toml"
    file.write_text(
        'kind = "rabbitmq"\nprofile = "rabbitmq"\nconfig = "rabbitmq.conf"\nnodes = 3\n'
    )
    with pytest.raises(BadTarget, match="nodes is 3; it should be 1, or 2 for a cluster"):
        load(str(file))
    assert "cluster" in load("rabbitmq-cluster").identity.capabilities
