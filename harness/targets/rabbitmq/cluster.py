"""Two RabbitMQ nodes that form a cluster, as one target: an alarm on either node applies to both
(RABBITMQ-FLOW-cluster-1)."""

from pathlib import Path

from brokerproof.harness.targets import parameters
from brokerproof.harness.targets.failure import SetUpFailed
from brokerproof.harness.targets.rabbitmq import release as rabbitmq_release
from brokerproof.harness.targets.rabbitmq.broker import RabbitmqProcess
from brokerproof.harness.targets.rabbitmq.target import RabbitmqTarget
from brokerproof.harness.targets.target import TargetFacts

NODES = ("a", "b")
"""Names of the nodes in cases. The acceptors of the second begin with ``b.``, as in ``b.amqp``."""


class RabbitmqClusterTarget(RabbitmqTarget):
    """The nodes have the same release and configuration, but separate folders and ports. They share
    the first node's epmd."""

    _nodes: dict[str, RabbitmqProcess]

    def start(self, folder: Path) -> TargetFacts:
        release = rabbitmq_release.find(self._version or rabbitmq_release.default_version())
        self._nodes, self.endpoints = {}, {}
        first: RabbitmqProcess | None = None
        try:
            for name in NODES:
                where = folder / self.identity.name / name
                process = RabbitmqProcess(where, config=self._path, release=release, beside=first)
                running = process.start()
                self._nodes[name] = process
                before = "" if first is None else f"{name}."
                self.endpoints |= {
                    f"{before}{acceptor}": (running.host, port)
                    for acceptor, port in running.ports.items()
                }
                first = first or process
            for node in self._nodes.values():
                _await_neighbour(node)
        except BaseException:
            self.stop()
            raise
        self.watch_the_host()
        port = self.endpoints[self.identity.default_acceptor][1]
        return TargetFacts(
            broker="RabbitMQ",
            version=release.version,
            configuration=f"{parameters.describe(self._path)}, {len(NODES)} nodes",
            endpoint=f"127.0.0.1:{port}",
        )

    def _node(self, name: str) -> RabbitmqProcess:
        return self._nodes[name or NODES[0]]

    def stop(self) -> None:
        super().stop()
        for node in reversed(getattr(self, "_nodes", {}).values()):
            node.stop()
        self._nodes = {}


def _await_neighbour(process: RabbitmqProcess) -> None:
    """Raise :class:`SetUpFailed` unless the node has found the other one and both are running."""
    try:
        process.control("await_online_nodes", str(len(NODES)))
    except SetUpFailed as problem:
        raise SetUpFailed(
            f"the nodes did not form a cluster: {problem}; see {process.log.parent}"
        ) from None
