"""No confirmation and no delivery is sent before its batch is stored, for every protocol, in any
order of clients' actions and the disk's answers. Whenever a confirmation or a delivery is sent, the
invariant starts a broker with only the data synced by then. Its content must agree with everything
sent so far: confirmed messages are present, acknowledged ones are not, delivered ones are present
and marked, and a transaction is present completely or not at all. Clients send, receive and
acknowledge on the same connection, so confirmations wait behind bodies in pieces; peers stop
reading; and the disk's reads may overtake its writes.
"""

import copy
import os
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any, Self

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    precondition,
    rule,
    run_state_machine_as_test,
)

from brokerproof.harness.model.broker_io import (
    BytesReceived,
    Connected,
    Effect,
    FileLoaded,
    FilesStored,
    Input,
    PeerGone,
    WritePaused,
    WriteResumed,
)
from brokerproof.harness.model.enums import CloseHow
from brokerproof.harness.model.time import NS_PER_MS, seconds
from brokerproof.reference_broker.config.activemq import connector
from brokerproof.reference_broker.persistence.memory import DiskFaults, MemoryDisk
from brokerproof.reference_broker.persistence.store import StoreOptions
from brokerproof.reference_broker.settings.activemq import Cursor
from brokerproof.reference_broker.settings.parameters import with_parameters
from brokerproof.reference_broker.settings.settings import Acceptor, Settings
from brokerproof.suites.soak.clients import CLIENTS
from brokerproof.suites.soak.clients.client import ARTEMIS, SLASHES, Client, Delivered, Event
from brokerproof.suites.soak.clients.stomp import StompClient
from brokerproof.suites.soak.ledger import Key, Ledger
from brokerproof.suites.units.drivers import activemq
from brokerproof.suites.units.drivers.persistence import StoringDriver, paging

EXAMPLES = int(os.environ.get("BROKERPROOF_STORAGE_EXAMPLES", "20"))
SLOW_WRITER = DiskFaults(write=20 * NS_PER_MS, read=NS_PER_MS)
SLOW_READER = DiskFaults(write=NS_PER_MS, read=20 * NS_PER_MS)
QUEUES = ("kept", "paged")
LARGE = 2000
"""The size from which a body has its own file."""
OPTIONS = StoreOptions(journaled=True, segment=20_000, ballast=0)


def artemis() -> Settings:
    """One queue stays in memory and one pages."""
    every = paging(-1, max_delivery_attempts=-1).address_settings
    paged = paging(1000, 1500, max_delivery_attempts=-1, max_read_page_bytes=-1).address_settings
    large = {"stomp_min_large_message_size": LARGE}
    acceptors = (
        with_parameters(Acceptor("stomp", protocols=("STOMP",)), **large),
        Acceptor("amqp", protocols=("AMQP",)),
        Acceptor("core", protocols=("CORE",)),
    )
    settings = (*every, *(replace(setting, match="paged") for setting in paged))
    return Settings(acceptors=acceptors, address_settings=settings)


def active() -> Settings:
    """The same two queues, with a cursor of the store."""
    policy = activemq.policy(
        "queue://paged",
        memory_limit=3000,
        cursor=Cursor.STORE,
        max_page_size=3,
        producer_flow_control=False,
    )
    made = activemq.settings(activemq.configured(policy))
    openwire = connector.acceptor("openwire", ("OPENWIRE",))
    return replace(made, acceptors=(*made.acceptors, openwire))


class Watched(StoringDriver):
    """A driver that passes on everything sent, with the disk's content at that instant."""

    def __init__(self, settings: Settings) -> None:
        self.stored: dict[str, bytes] = {}
        """Synced bytes by file, as the broker knows them."""
        super().__init__(settings, OPTIONS, faults=SLOW_WRITER)

    def feed(self, event: Input) -> Self:
        if isinstance(event, FilesStored):
            self.stored = self.disk.synced()
        return super().feed(event)

    def _note(self, effects: Iterable[Effect]) -> None:
        super()._note(effects)
        self.on_effects()

    def on_effects(self) -> None:
        """Check everything that was sent."""


@dataclass(eq=False)
class Peer:
    """A client and the confirmations that it awaits: ``sent`` and ``acknowledged``, by
    reference."""

    conn: int
    client: Client
    number: int
    queue: str = ""
    next: int = 0
    groups: int = 0
    asked: int = 0
    paused: bool = False
    sent: dict[str, tuple[str, list[Key]]] = field(default_factory=dict)
    acknowledged: dict[str, list[Key]] = field(default_factory=dict)
    held: list[tuple[Any, Key]] = field(default_factory=list)


class Confirming(RuleBasedStateMachine):
    make: Any = staticmethod(artemis)
    kinds: tuple[str, ...] = ("stomp", "amqp", "core")
    naming = ARTEMIS

    @initialize()
    def begin(self) -> None:
        self.ledger = Ledger()
        self.peers: list[Peer] = []
        self.leaving: list[Peer] = []
        self.numbers = 0
        self.driver = Watched(self.make())
        self.driver.on_effects = self.on_effects  # type: ignore[method-assign]
        for queue in QUEUES:  # both exist from here on
            self.open("stomp").client.consume(queue, 0)
        self.pump()
        self.driver.settle()
        for peer in tuple(self.peers):
            self.cut_off(peer)
        self.driver.settle()

    # --- what the broker sends --------------------------------------------------------------------

    def on_effects(self) -> None:
        """Record the frames sent, first deliveries before redeliveries: frames sent to several
        peers at one instant have no order."""
        events: list[tuple[Peer, Event]] = []
        for peer in (*self.peers, *self.leaving):
            data = self.driver._got.pop(peer.conn, b"")
            events += [(peer, event) for event in (peer.client.on_bytes(data) if data else ())]
        events.sort(key=lambda entry: getattr(entry[1], "marked", False) is not False)
        for peer, event in events:
            if isinstance(event, Delivered):
                self.on_delivered(peer, event)
            elif event.reference in peer.sent:
                queue, keys = peer.sent.pop(event.reference)
                for key in keys:
                    self.ledger.receipted([queue], key)
            else:
                for key in peer.acknowledged.pop(event.reference):
                    self.ledger.acked(peer.queue, key)
        if events:
            self.check(self.driver.stored)

    def on_delivered(self, peer: Peer, event: Delivered) -> None:
        """Record a delivery. A delivery to a peer that has left was dispatched before its
        DISCONNECT, and the receipt follows. Meanwhile others may have received the message, marked,
        and acknowledged it."""
        key = Key.of(event.body)
        assert event.body == key.body(len(event.body))
        if peer in self.leaving:
            known = self.ledger.queues[peer.queue].get(key)
            if known is not None:
                known.delivered = True
            return
        self.ledger.delivered(peer.queue, key, event.marked is not False)
        peer.held.append((event.handle, key))

    def check(self, stored: dict[str, bytes]) -> None:
        """Start a broker on ``stored``, and compare its content with everything sent."""
        ledger = copy.deepcopy(self.ledger)
        later = StoringDriver(self.driver.settings, OPTIONS, faults=DiskFaults())
        later.disk = MemoryDisk.holding(stored)
        later.kill()
        for queue in QUEUES:
            client = StompClient("check", self.naming)
            client.consume(queue, -1)
            later.conn += 1
            later.feed(Connected(later.conn, "stomp", "test"))
            there: list[tuple[Key, bool]] = []
            while data := client.take():
                later.feed(BytesReceived(later.conn, data))
                later.wait(seconds(1))
                for event in client.on_bytes(later._got.pop(later.conn, b"")):
                    if isinstance(event, Delivered):
                        there.append((Key.of(event.body), event.marked is True))
            ledger.found(queue, there)
        assert ledger.wrong == []

    def pump(self) -> None:
        while any(self.say(peer) for peer in (*self.peers, *self.leaving)):
            pass

    def say(self, peer: Peer) -> bool:
        data = peer.client.take()
        if data:
            self.driver.feed(BytesReceived(peer.conn, data))
        return bool(data)

    # --- what clients do --------------------------------------------------------------------------

    def open(self, kind: str) -> Peer:
        self.numbers += 1
        self.driver.conn += 1
        client = CLIENTS[kind](f"c{self.numbers}", self.naming)
        peer = Peer(self.driver.conn, client, self.numbers)
        self.peers.append(peer)
        self.driver.feed(Connected(peer.conn, client.protocol, "test"))
        return peer

    @precondition(lambda self: len(self.peers) < 4)
    @rule(kind=st.integers(0, 2), queue=st.sampled_from(["", *QUEUES]), window=st.booleans())
    def connect(self, kind: int, queue: str, window: bool) -> None:
        peer = self.open(self.kinds[kind])
        peer.queue = queue
        if queue:
            peer.client.consume(queue, -1 if window else 900)
        self.pump()

    @precondition(lambda self: self.peers)
    @rule(who=st.integers(0, 3), queue=st.sampled_from(QUEUES))
    def send_behind_a_large_body(self, who: int, queue: str) -> None:
        """Deliver a large body to its sender: the reads of its pieces overtake the write of
        messages sent in between."""
        peer = self.peers[who % len(self.peers)]
        self.send(who, peer.queue or queue, [3000], False)
        for _ in range(4):
            if not any(isinstance(answer, FileLoaded) for _, _, answer in self.driver._answers):
                self.driver.step()
                self.pump()
        self.send(who, queue, [20], False)
        self.reads_overtake_writes()

    @precondition(lambda self: any(isinstance(peer.client, StompClient) for peer in self.peers))
    @rule(queue=st.sampled_from(QUEUES))
    def send_and_leave(self, queue: str) -> None:
        """Let the receipt of DISCONNECT confirm an earlier SEND that asked for no receipt."""
        peer = next(peer for peer in self.peers if isinstance(peer.client, StompClient))
        assert isinstance(peer.client, StompClient)
        key = Key(peer.number, peer.next, 0)
        peer.next += 1
        self.ledger.sent([queue], key)
        peer.client.send_unconfirmed(queue, key.body(20))
        self.pump()
        peer.sent["bye"] = queue, [key]
        peer.client.leave("bye")
        self.say(peer)
        self.peers.remove(peer)
        self.leaving.append(peer)

    @precondition(lambda self: self.peers)
    @rule(
        who=st.integers(0, 3),
        queue=st.sampled_from(QUEUES),
        lengths=st.lists(st.sampled_from([20, 400, 3000]), min_size=1, max_size=3),
        unit=st.booleans(),
    )
    def send(self, who: int, queue: str, lengths: list[int], unit: bool) -> None:
        peer = self.peers[who % len(self.peers)]
        peer.groups += unit
        keys = [
            Key(peer.number, peer.next + at, peer.groups if unit else 0)
            for at in range(len(lengths))
        ]
        peer.next += len(keys)
        for key in keys:
            self.ledger.sent([queue], key)
        reference = f"s{keys[0].number}"
        peer.sent[reference] = queue, keys
        bodies = [key.body(length) for key, length in zip(keys, lengths, strict=True)]
        peer.client.produce(queue, bodies, reference, unit)
        self.pump()

    @precondition(lambda self: any(peer.held for peer in self.peers))
    @rule(who=st.integers(0, 3), count=st.integers(1, 4), unit=st.booleans())
    def acknowledge(self, who: int, count: int, unit: bool) -> None:
        peers = [peer for peer in self.peers if peer.held]
        peer = peers[who % len(peers)]
        taken, peer.held = peer.held[:count], peer.held[count:]
        for _, key in taken:
            self.ledger.ack_asked(peer.queue, key)
        peer.asked += 1
        peer.acknowledged[f"a{peer.asked}"] = [key for _, key in taken]
        peer.client.acknowledge([handle for handle, _ in taken], f"a{peer.asked}", unit)
        self.pump()

    @precondition(lambda self: self.peers)
    @rule(who=st.integers(0, 3))
    def stop_or_go_on_reading(self, who: int) -> None:
        peer = self.peers[who % len(self.peers)]
        peer.paused = not peer.paused
        self.driver.feed(WritePaused(peer.conn) if peer.paused else WriteResumed(peer.conn))
        self.pump()

    @precondition(lambda self: len(self.peers) > 2)
    @rule(who=st.integers(0, 3))
    def cut(self, who: int) -> None:
        self.cut_off(self.peers[who % len(self.peers)])
        self.pump()

    def cut_off(self, peer: Peer) -> None:
        self.peers.remove(peer)
        self.driver.feed(PeerGone(peer.conn, CloseHow.RESET))

    # --- what the disk does -----------------------------------------------------------------------

    @rule(slow=st.sampled_from([SLOW_WRITER, SLOW_READER]))
    def the_disk_changes(self, slow: DiskFaults) -> None:
        self.driver.disk.faults = slow

    @rule(answers=st.integers(1, 4))
    def the_disk_answers(self, answers: int) -> None:
        for _ in range(answers):
            self.driver.step()
            self.pump()

    @rule()
    def reads_overtake_writes(self) -> None:
        self.driver.read_ahead()
        self.pump()

    def teardown(self) -> None:
        """Check that finally everything is confirmed to every peer that reads."""
        if not hasattr(self, "driver"):
            return
        everybody = [*self.peers, *self.leaving]
        for peer in everybody:
            if peer.paused:
                self.driver.feed(WriteResumed(peer.conn))
        for _ in range(3 + sum(len(peer.sent) + len(peer.acknowledged) for peer in everybody)):
            self.pump()
            self.driver.wait(seconds(1))
        waiting = [peer for peer in everybody if peer.sent or peer.acknowledged]
        assert waiting == []


class ConfirmingActiveMq(Confirming):
    make = staticmethod(active)
    kinds = ("stomp", "amqp", "openwire")
    naming = SLASHES


@pytest.mark.parametrize("machine", [Confirming, ConfirmingActiveMq])
def test_nothing_leaves_before_its_batch_is_stored(machine: type[Confirming]) -> None:
    run_state_machine_as_test(  # type: ignore[no-untyped-call]
        machine, settings=settings(max_examples=EXAMPLES, stateful_step_count=30, deadline=None)
    )


def test_a_first_delivery_may_leave_behind_a_marked_one_to_a_peer_that_has_left() -> None:
    machine = Confirming()
    machine.begin()
    machine.connect(kind=0, queue="paged", window=False)
    machine.send(who=0, queue="paged", lengths=[3000], unit=False)
    machine.send_and_leave(queue="kept")
    machine.connect(kind=0, queue="paged", window=False)
    machine.teardown()
    assert machine.ledger.counts.redelivered == 1
