"""The memory of addresses: the charge for a message, its release, and full addresses."""

from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from brokerproof.harness.model.enums import RoutingType
from brokerproof.reference_broker.families.artemis.accounting import MESSAGE, REFERENCE, Accounting
from brokerproof.reference_broker.kernel.message import Envelope, Message
from brokerproof.reference_broker.settings.address_rules import AddressRules
from brokerproof.reference_broker.settings.settings import AddressSetting, Settings
from brokerproof.suites.units.drivers.amqp10 import Desk, Peer
from brokerproof.suites.units.drivers.broker import Driver, frames, only, patient, send, subscribe

ANYCAST = len("destination-type") + len("ANYCAST")
TOPIC = "destination-type:MULTICAST\n"
OF_TOPIC = "subscription-type:MULTICAST\n"
IN = "transaction:t\n"


def memory(driver: Driver | Desk, address: str = "q") -> tuple[int, int]:
    """Return bytes and messages of an address or, without a name, of the whole broker."""
    accounting = driver.broker._shared.accounting
    found = accounting.find(address) if address else accounting
    return found.size, found.messages


def charge(size: int, queues: int = 1) -> int:
    return MESSAGE + size + REFERENCE * queues


def sized(size: int) -> Message:
    return Message(1, Envelope("a", "a", RoutingType.ANYCAST, (), text=False), bytes(size))


# --- until when -----------------------------------------------------------------------------------


def delivered(driver: Driver, ack: str) -> list[str]:
    """Return the ids with which connection 1 acknowledges a, b and c, which it has received."""
    driver.connect(1)
    driver.connect(2)
    driver.feed(1, subscribe(ack=ack))
    return [
        frame.headers.get("ack", "")
        for frame in frames(driver.feed(2, send("a") + send("b") + send("c")), 1)
    ]


def test_what_is_given_up_without_dead_letters_is_gone() -> None:
    driver = Driver(Settings(address_settings=(AddressSetting("q", max_delivery_attempts=1),)))
    ids = delivered(driver, "client-individual")
    driver.feed(1, f"NACK\nid:{ids[1]}\n\n\0")
    assert memory(driver, "") == (2 * charge(ANYCAST + 1), 2)


@pytest.mark.parametrize("verb", ["ACK", "NACK"])
@pytest.mark.parametrize("end", ["COMMIT", "ABORT", "UNSUBSCRIBE", "gone"])
def test_a_queue_that_is_deleted_takes_everything_with_it(verb: str, end: str) -> None:
    driver = Driver().connected(1, 2)
    driver.feed(
        1,
        subscribe(
            ack="client-individual", destination="t", headers=OF_TOPIC + "consumer-window-size:0\n"
        ),
    )
    ack = only(driver.feed(2, send("a", "t", TOPIC) + send("b", "t", TOPIC)), 1)["ack"]
    assert memory(driver, "t")[1] == 2
    driver.feed(1, f"BEGIN\ntransaction:t\n\n\0{verb}\nid:{ack}\n{IN}\n\0")
    assert memory(driver, "t")[1] == 2, "what is settled in a transaction may come back"
    if end == "gone":
        driver.gone(1)
    else:
        driver.feed(1, "UNSUBSCRIBE\nid:0\n\n\0")
        assert memory(driver, "t")[1] == 1, "what the transaction has settled"
        if end != "UNSUBSCRIBE":
            driver.feed(1, f"{end}\ntransaction:t\n\n\0")
        else:
            driver.gone(1)
    assert memory(driver, "") == (0, 0)
    assert "t" not in driver.broker._shared.accounting._accounts, "nor is its account kept"


def test_presettled_deliveries_and_removed_nodes_leave_nothing() -> None:
    desk = Desk()
    peer = Peer(desk).ready()
    peer.attach_sender()
    for number in range(3):
        peer.transfer(number)
    peer.attach_receiver(snd_settle_mode=1)
    assert memory(desk)[1] == 3
    peer.flow(2)
    assert memory(desk)[1] == 1


def test_a_copy_that_is_browsed_changes_nothing() -> None:
    from brokerproof.reference_broker.protocols.amqp10.messaging import Source

    desk = Desk()
    peer = Peer(desk).ready()
    peer.attach_sender()
    peer.transfer(0)
    for mode in (0, 1):
        source = Source(address="q", capabilities=("queue",), distribution_mode="copy")
        peer.attach_receiver(
            source=source, snd_settle_mode=mode, handle=5 + mode, name=f"browser {mode}"
        )
        peer.flow(5, handle=5 + mode)
    assert memory(desk)[1] == 1
    desk.gone(peer.conn)
    assert memory(desk)[1] == 1


# --- full -----------------------------------------------------------------------------------------


def test_an_account_is_kept_as_long_as_there_is_an_address_or_a_charge() -> None:
    accounting = Accounting(Settings(), AddressRules(Settings()))
    assert accounting.find("a") is not accounting.find("a")
    account = accounting.open("a")
    held = account.charge_transaction(sized(1))
    accounting.close(account)
    assert accounting.find("a") is accounting.open("a") is account, "the memory is still taken"
    accounting.close(account)
    held.release()
    assert accounting.find("a") is not account
    assert accounting.size == accounting.messages == 0


# --- nothing leaks --------------------------------------------------------------------------------


@dataclass
class Someone:
    driver: Driver
    conn: int
    acks: list[str] = field(default_factory=list)
    open: bool = True


ACTIONS = st.one_of(
    st.tuples(st.just("send"), st.sampled_from("qt"), st.booleans(), st.integers(0, 30)),
    st.tuples(st.sampled_from(["ACK", "NACK"]), st.integers(0, 5), st.booleans(), st.just(0)),
    st.tuples(
        st.sampled_from(["COMMIT", "ABORT", "gone", "UNSUBSCRIBE"]),
        st.just(0),
        st.just(False),
        st.just(0),
    ),
)


def play(
    driver: Driver, actions: list[tuple[int, tuple[str, object, bool, int]]], modes: tuple[str, str]
) -> None:
    """Play ``actions`` of two connections, each of which reconnects after it is closed."""
    people: dict[int, Someone] = {}
    fresh = 0

    def arrive(who: int) -> Someone:
        nonlocal fresh
        fresh += 1
        someone = people[who] = Someone(driver, fresh)
        driver.connect(fresh)
        feed(fresh, "BEGIN\ntransaction:t\n\n\0")
        feed(fresh, subscribe("q", modes[who]) + subscribe("t", modes[who], "t", OF_TOPIC))
        return someone

    def feed(conn: int, data: str) -> None:
        effects = driver.feed(conn, data)
        for person in people.values():
            person.acks += [
                frame["ack"] for frame in frames(effects, person.conn) if "ack" in frame.headers
            ]

    for who, (what, where, inside, size) in actions:
        someone = people.get(who)
        if someone is None or someone.conn in driver.closed:
            someone = arrive(who)
        extra = IN if inside else ""
        if what == "send":
            feed(
                someone.conn, send("x" * size, str(where), extra + (TOPIC if where == "t" else ""))
            )
        elif what in ("ACK", "NACK"):
            if someone.acks:
                ack = someone.acks[int(str(where)) % len(someone.acks)]
                feed(someone.conn, f"{what}\nid:{ack}\n{extra}\n\0")
        elif what == "gone":
            driver.gone(someone.conn)
            del people[who]
        elif what == "UNSUBSCRIBE":
            feed(
                someone.conn, "UNSUBSCRIBE\nid:t\n\n\0" + subscribe("t", modes[who], "t", OF_TOPIC)
            )
        else:
            feed(someone.conn, f"{what}\ntransaction:t\n\n\0BEGIN\ntransaction:t\n\n\0")
    for person in list(people.values()):
        driver.gone(person.conn)


MODES = st.sampled_from(["auto", "client", "client-individual"])


@given(
    actions=st.lists(st.tuples(st.integers(0, 1), ACTIONS), max_size=40),
    modes=st.tuples(MODES, MODES),
)
@patient
def test_what_is_charged_is_what_is_there(
    actions: list[tuple[int, tuple[str, object, bool, int]]], modes: tuple[str, str]
) -> None:
    """Once all connections have ended, exactly the messages in the one remaining queue are charged,
    whatever happened before."""
    driver = Driver(Settings(address_settings=(AddressSetting("#", max_delivery_attempts=2),)))
    play(driver, actions, modes)
    address = driver.broker._shared.router.addresses.by_name.get("q")
    waiting = (
        []
        if address is None
        else [entry.message for queue in address.anycast for entry in queue._ready]
    )
    expected = sum(charge(message.size()) for message in waiting), len(waiting)
    assert memory(driver, "") == memory(driver, "q") == expected
    assert memory(driver, "t") == (0, 0)
