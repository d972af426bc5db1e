"""Infers the dialect of a STOMP broker from its address alone: versions, names of queues and
topics, and the optional features it refuses.

A probe asks only once and uses the broker's first answer. A feature counts as absent only if the
broker *refuses* it with ERROR or by closing the connection; a feature that is accepted but wrong is
for the cases to judge. Features without a specification (windows, redelivery marks) are reported,
not judged."""

import dataclasses
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from typing import Self

from brokerproof.harness.cases.bench import Bench
from brokerproof.harness.cases.connections import headers_of
from brokerproof.harness.model.enums import Clock, CloseHow, RoutingType
from brokerproof.harness.model.time import Duration, ms, seconds
from brokerproof.harness.protocols.conversation import ControlFailed
from brokerproof.harness.protocols.stomp.codec import HeadersLike, header_list
from brokerproof.harness.protocols.stomp.raw_peer import Destination, StompPeer, frame
from brokerproof.harness.targets.external.target import AddressTarget
from brokerproof.harness.targets.target import Identity, Target
from brokerproof.harness.worlds.bounds import LimitReached

ANSWER: Duration = seconds(3)
QUIET: Duration = ms(400)
VERSIONS = ("1.2", "1.1", "1.0")
USUAL_HOST = "localhost"
Place = tuple[str, str, str]
"""The form of a destination, and the headers by which SEND and SUBSCRIBE select its kind."""
QUEUES: Sequence[Place] = (
    *((text, "", "") for text in ("/queue/{name}", "{name}", "queue/{name}", "queue://{name}")),
    ("{name}", "destination-type:ANYCAST", "subscription-type:ANYCAST"),
)
TOPICS: Sequence[Place] = tuple(
    (text, "", "")
    for text in (
        *("/topic/{name}", "/exchange/amq.topic/{name}", "topic/{name}", "topic://{name}"),
        "{name}",
    )
)
WINDOWS = {"consumer-window-size": "1", "prefetch-count": "1", "activemq.prefetchSize": "1"}


@dataclass
class Dialect:
    """An inferred dialect: its parameters, the absent capabilities with reasons, and sentences for
    readers."""

    parameters: dict[str, str] = field(default_factory=dict)
    absent: dict[str, str] = field(default_factory=dict)
    offered: set[str] = field(default_factory=set)
    """Capabilities that are not in an unknown broker's profile but worked once."""
    unmet: dict[str, str] = field(default_factory=dict)
    """See :attr:`Identity.unmet`."""
    sentences: list[str] = field(default_factory=list)

    def without(self, capability: str, reason: str) -> None:
        """Record that the broker does not offer a capability."""
        self.absent[capability] = reason
        self.sentences.append(reason)

    def applied(self, identity: Identity) -> Identity:
        profile = dataclasses.replace(
            identity.profile, parameters={**identity.profile.parameters, **self.parameters}
        )
        offering = dataclasses.replace(
            identity,
            profile=profile,
            capabilities=identity.capabilities | self.offered,
            unmet={**identity.unmet, **self.unmet},
        )
        return offering.without(self.absent)

    def add(self, other: Self) -> None:
        self.parameters |= other.parameters
        self.absent |= other.absent
        self.offered |= other.offered
        self.unmet |= other.unmet
        self.sentences += other.sentences


def is_unknown(target: Target) -> bool:
    return isinstance(target, AddressTarget) and target.is_stranger


class Questions:
    """Questions to one target, each over separate connections."""

    def __init__(self, target: Target, seed: int) -> None:
        self.target = target
        self._seed = seed
        self._numbers = count(1)

    def asked(self, question: Callable[[Bench], bool]) -> bool:
        """Return True if the answer is yes. A refusal counts as no."""
        label = f"dialect-{next(self._numbers)}"
        bench = Bench(self.target, (), label=label, seed=self._seed)
        try:
            return question(bench)
        except (ControlFailed, LimitReached):
            return False
        finally:
            bench.close()

    def asked_together(self, questions: Sequence[Callable[[Bench], bool]]) -> list[bool]:
        """Return the answers to ``questions``, asked concurrently in real time."""
        if self.target.clock is Clock.VIRTUAL:
            return list(map(self.asked, questions))
        with ThreadPoolExecutor(len(questions)) as pool:
            return list(pool.map(self.asked, questions))


class Probes(Questions):
    """Questions over STOMP, and the facts known so far."""

    def __init__(self, target: Target, seed: int) -> None:
        super().__init__(target, seed)
        self.version = ""
        """The highest version that the broker speaks."""
        self.versions: list[str] = []

    def client(self, bench: Bench, version: str = "", headers: HeadersLike = ()) -> StompPeer:
        version = version or self.version
        peer = bench.peer(version)
        peer.send("CONNECT", bench.connect_headers(version, headers))
        peer.connected = peer.expect(frame("CONNECTED"), within=ANSWER)
        return peer

    def answers(self, peer: StompPeer, command: str, headers: HeadersLike) -> bool | None:
        """True if a frame is confirmed, False if it is refused, None if neither."""
        receipt = peer.next_receipt()
        peer.send(command, (*header_list(headers), ("receipt", receipt)))
        confirmed = peer.watch_for(frame("RECEIPT", {"receipt-id": receipt}), within=ANSWER)
        if confirmed is not None:
            return True
        return False if peer.ended or any(map(peer.fatal, peer.inbox)) else None


def infer_dialect(target: Target, seed: int) -> Dialect:
    """Find the STOMP dialect that ``target`` speaks; none if it refuses the login."""
    probes, dialect = Probes(target, seed), Dialect()
    if not _versions(probes, dialect):
        return dialect
    queue = _queue(probes, dialect)
    topic = _topic(probes, dialect)
    if queue is None and topic is not None:
        dialect.parameters["anycast_destination"] = topic[0]
    place = queue or topic
    if place is None:
        usual = f"no plain message passed through {QUEUES[0][0]} or {TOPICS[0][0]}"
        dialect.unmet |= {f"stomp {routing}": usual for routing in RoutingType}
    _heartbeats(probes, dialect)
    _transactions(probes, dialect)
    if place is not None:
        _receipts(probes, dialect, place)
    if queue is not None:
        _nack(probes, dialect, queue)
    if place is not None:
        _windows(probes, dialect, place)
    return dialect


def _versions(probes: Probes, dialect: Dialect) -> bool:
    spoken = [version for version in VERSIONS if probes.asked(_speaks(probes, version))]
    if not spoken:
        return False
    probes.version, probes.versions = spoken[0], spoken
    dialect.sentences.append(f"speaks STOMP {', '.join(sorted(spoken))}")
    host = probes.target.identity.profile.parameters.get("stomp_host", USUAL_HOST)
    if host != USUAL_HOST:
        dialect.sentences.append(f"accepts host:{host}, not host:{USUAL_HOST}")
    for version in VERSIONS:
        if version not in spoken:
            dialect.without(f"stomp-{version}", f"does not agree on STOMP {version}")
    return True


def _speaks(probes: Probes, version: str) -> Callable[[Bench], bool]:
    def question(bench: Bench) -> bool:
        connected = probes.client(bench, version).connected
        return connected is not None and (connected.get("version") or "1.0") == version

    return question


def _queue(probes: Probes, dialect: Dialect) -> Place | None:
    queue = _first(probes, dialect, RoutingType.ANYCAST, QUEUES, _keeps)
    if queue is None:
        names = ", ".join(map(_written, QUEUES))
        dialect.without("anycast", f"none of {names} keeps a message for a later subscriber")
    elif probes.asked(partial(_ends_with_its_consumer, probes, queue)):
        dialect.without("anycast", f"{_written(queue)} is deleted with its last consumer")
    else:
        dialect.sentences.append(
            f"{_written(queue)} is a queue: it keeps a message until somebody subscribes, and gives"
            " it to one of two subscribers"
        )
    return queue


def _written(place: Place) -> str:
    template, send, _ = place
    return f"{template} with {send}" if send else template


def _first(
    probes: Probes,
    dialect: Dialect,
    routing: RoutingType,
    places: Sequence[Place],
    does: Callable[[Probes, Place, Bench], bool],
) -> Place | None:
    """Return and record the first of ``places`` that is of that kind."""
    answers = probes.asked_together([partial(does, probes, place) for place in places])
    found = next((place for place, yes in zip(places, answers, strict=True) if yes), None)
    if found is not None:
        names = ("destination", "send_headers", "subscribe_headers")
        kind = routing.value.lower()
        dialect.parameters |= {
            f"{kind}_{name}": text
            for name, text in zip(names, found, strict=True)
            if text or name == "destination"
        }
    return found


def _destination(place: Place, bench: Bench) -> Destination:
    template, send, subscribe = place
    return Destination(
        template.format(name=bench.fresh_name()), headers_of(send), headers_of(subscribe)
    )


def _keeps(probes: Probes, place: Place, bench: Bench) -> bool:
    """True if a message waits for a subscriber, and reaches only one of two."""
    to = _destination(place, bench)
    peer = probes.client(bench)
    peer.publish(to, b"kept", receipt=False)
    bench.advance(QUIET)
    peer.subscribe(to, receipt=False)
    peer.message(body=b"kept", within=ANSWER)
    return _copies(probes, place, bench) == 1


def _ends_with_its_consumer(probes: Probes, place: Place, bench: Bench) -> bool:
    """True if the deliveries of a lost consumer go to another consumer that is already present, but
    not to one that subscribes later."""

    def returns(*, later: bool) -> bool:
        to, holder, other = _destination(place, bench), probes.client(bench), probes.client(bench)
        holder.publish(to, b"held", receipt=False)
        holder.subscribe(to, ack="client", receipt=False)
        holder.message(body=b"held", within=ANSWER)
        steps = [
            partial(other.subscribe, to, receipt=False),
            partial(holder.close_socket, CloseHow.RESET),
        ]
        for step in reversed(steps) if later else steps:
            step()
            bench.advance(QUIET)
        return other.watch_for(frame("MESSAGE"), within=ANSWER) is not None

    return not returns(later=True) and returns(later=False)


def _copies(probes: Probes, place: Place, bench: Bench) -> int:
    """Return how many of two subscribers receive a message."""
    to = _destination(place, bench)
    peers = [probes.client(bench) for _ in range(2)]
    for peer in peers:
        peer.subscribe(to, receipt=False)
    bench.advance(QUIET)
    producer = probes.client(bench)
    producer.publish(to, b"copied", receipt=False)
    bench.wait_until(lambda: any(peer.messages_seen for peer in peers), ANSWER)
    bench.advance(QUIET)
    return sum(peer.messages_seen for peer in peers)


def _is_topic(probes: Probes, place: Place, bench: Bench) -> bool:
    return _copies(probes, place, bench) == 2


def _topic(probes: Probes, dialect: Dialect) -> Place | None:
    topic = _first(probes, dialect, RoutingType.MULTICAST, TOPICS, _is_topic)
    if topic is None:
        names = ", ".join(map(_written, TOPICS))
        dialect.without("multicast", f"none of {names} gives two subscribers a message each")
    else:
        words = "is a topic: two subscribers get a message each"
        dialect.sentences.append(f"{_written(topic)} {words}")
    return topic


def _heartbeats(probes: Probes, dialect: Dialect) -> None:
    offered = ""

    def question(bench: Bench) -> bool:
        nonlocal offered
        connected = probes.client(bench, headers={"heart-beat": "10000,10000"}).connected
        offered = (connected and connected.get("heart-beat")) or ""
        return offered.replace(" ", "") not in ("", "0,0")

    if probes.version == "1.0":
        dialect.absent["heart-beat"] = "heartbeats begin with STOMP 1.1"
    elif probes.asked(question):
        dialect.sentences.append(f"agrees on heartbeats: 10000,10000 is answered {offered}")
    else:
        answer = f"heart-beat:{offered}" if offered else "no heart-beat header"
        dialect.without("heart-beat", f"agrees on no heartbeats: 10000,10000 is answered {answer}")


def _transactions(probes: Probes, dialect: Dialect) -> None:
    refused = False

    def question(bench: Bench) -> bool:
        nonlocal refused
        refused = probes.answers(probes.client(bench), "BEGIN", {"transaction": "t"}) is False
        return refused

    probes.asked(question)
    if refused:
        dialect.without("transactions", "refuses BEGIN")


def _receipts(probes: Probes, dialect: Dialect, place: Place) -> None:
    """Record which frames take effect without a receipt, so that only cases about RECEIPT wait for
    one."""
    silent: list[str] = []

    def question(bench: Bench) -> bool:
        to, peer = _destination(place, bench), probes.client(bench)
        asked = {
            "BEGIN": (("transaction", "t"),),
            "SUBSCRIBE": (("id", "0"), ("destination", to.name), *to.subscribe_headers),
            "SEND": (("destination", to.name), *to.send_headers),
        }
        if "transactions" in dialect.absent:
            del asked["BEGIN"]
        for command, headers in asked.items():
            peer.send(command, (*headers, ("receipt", command)))
            bench.advance(QUIET)
        peer.message(within=ANSWER)
        for command in asked:
            if not peer.watch_for(frame("RECEIPT", {"receipt-id": command}), within=ANSWER):
                silent.append(command)
        return peer.ended is None

    if probes.asked(question):
        reasons = {name: f"{name} with a receipt header is never confirmed" for name in silent}
        dialect.unmet |= {f"stomp {name}": reason for name, reason in reasons.items()}
        dialect.sentences.extend(reasons.values())


def _nack(probes: Probes, dialect: Dialect, queue: Place) -> None:
    """Record whether NACK is offered: if the broker accepts it in one version, it is judged in the
    others too."""
    versions = [version for version in probes.versions if version != "1.0"]
    if not versions:
        dialect.absent["nack"] = "NACK begins with STOMP 1.1"
    elif all(_refuses_nack(probes, queue, version) for version in versions):
        dialect.without("nack", "refuses NACK")


def _refuses_nack(probes: Probes, queue: Place, version: str) -> bool:
    def question(bench: Bench) -> bool:
        to = _destination(queue, bench)
        peer = probes.client(bench, version)
        peer.publish(to, b"refused", receipt=False)
        peer.subscribe(to, ack="client", receipt=False)
        message = peer.message(within=ANSWER)
        refused = probes.answers(peer, "NACK", peer.naming(message)) is False
        peer.close_socket(CloseHow.RESET)
        return refused

    return probes.asked(question)


def _windows(probes: Probes, dialect: Dialect, place: Place) -> None:
    """Report how many of four messages a subscriber receives without acknowledging any, with and
    without each header that may limit this number."""
    asked: list[dict[str, str]] = [{}, *({name: value} for name, value in WINDOWS.items())]
    arrived = [0] * len(asked)

    def question(bench: Bench, at: int) -> bool:
        arrived[at] = _let_out(probes, place, asked[at], bench)
        return True

    probes.asked_together([partial(question, at=at) for at in range(len(asked))])
    without, *with_header = arrived
    if without < 4:
        if without:
            dialect.parameters["most_unacknowledged"] = str(without)
        dialect.sentences.append(
            f"lets out {without} of 4 messages to a subscriber that acknowledges none, without any"
            " header"
        )
        return
    for (header, value), let_out in zip(WINDOWS.items(), with_header, strict=True):
        if 0 < let_out < 4:
            dialect.sentences.append(
                f"{header}:{value} on SUBSCRIBE lets out {let_out} of 4 messages; a profile says"
                " what it should do"
            )


def _let_out(probes: Probes, place: Place, headers: dict[str, str], bench: Bench) -> int:
    """Return how many of four messages a subscriber receives without acknowledging any."""
    to = _destination(place, bench)
    peer, producer = probes.client(bench), probes.client(bench)
    peer.subscribe(to, ack="client", headers=headers, receipt=False)
    bench.advance(QUIET)
    for _ in range(4):  # from another client: not every broker delivers a message to its sender
        producer.publish(to, b"x" * 50, receipt=False)
    bench.wait_until(lambda: peer.messages_seen == 4, 3 * QUIET)
    return peer.messages_seen
