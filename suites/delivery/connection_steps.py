"""Many connections at the same time, each of which sends a message."""

from brokerproof.suites.api import Bench, listed
from brokerproof.suites.steps import amounts
from brokerproof.suites.steps.queue_clients import QueueClient


def judge_connections(
    target: Bench,
    client: type[QueueClient],
    position: int,
    most: int,
    arrives: str,
    confirmed: str | None = None,
) -> None:
    """Open at most ``most`` connections; each sends a message to a queue. Judge by ``arrives`` that
    these messages reach the oldest connection, and by ``confirmed`` that they are confirmed."""
    name, count = target.fresh_name(), amounts.at(target, position, least=1, most=most)
    clients = [client(target, name) for _ in range(count)]
    target.used_amount("connections", count)
    for number, sender in enumerate(clients):
        sender.confirmed_by = confirmed
        sender.send([b"%d" % number])
    clients[0].join()
    got: set[bytes] = set()
    while len(got) < count and (arrived := clients[0].receive(1)):
        got.update(arrived)
        clients[0].settle(len(clients[0].held))
    lost = [number for number in range(count) if b"%d" % number not in got]
    words = listed(lost or ["(none)"])
    detail = f"each of {count} connections sent a message; those whose message was lost: {words}"
    target.record_finding(arrives, not lost, detail)


def most_amqp(target: Bench) -> int:
    """The largest number of AMQP connections a case opens; in real time each may take 0.1 s."""
    return 100 if target.virtual else 64
