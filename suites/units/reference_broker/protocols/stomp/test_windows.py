"""Consumer windows in octets: sizes around one and two frames, what is charged and what comes
back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from brokerproof.reference_broker.kernel.credit import ByteWindow
from brokerproof.reference_broker.settings.acceptor import Acceptor
from brokerproof.reference_broker.settings.parameters import with_parameters
from brokerproof.reference_broker.settings.settings import Settings
from brokerproof.suites.units.drivers.broker import Driver, bodies, frames, patient, send, subscribe

BODY = "x" * 50


def driver_with(
    size: int | str | None, count: int, ack: str = "client", version: str = "1.2"
) -> tuple[Driver, list[str]]:
    """A subscriber with that window, ``count`` equal messages sent, and the message ids it got."""
    driver = Driver()
    driver.connect(1, version)
    driver.connect(2)
    driver.feed(
        1, subscribe(ack=ack, headers="" if size is None else f"consumer-window-size:{size}\n")
    )
    got = [frame for _ in range(count) for frame in frames(driver.feed(2, send(BODY)), 1)]
    return driver, [
        each["ack" if version == "1.2" and ack != "auto" else "message-id"] for each in got
    ]


def length(ack: str = "client") -> int:
    driver = Driver()
    driver.connect(1)
    driver.feed(1, subscribe(ack=ack))
    (frame,) = frames(driver.feed(1, send(BODY)), 1)
    return frame.size


L = length()


@pytest.mark.parametrize("ack", ["client", "client-individual"])
@pytest.mark.parametrize(
    ("window", "delivered"),
    [
        (0, 1),
        (1, 1),
        (L - 1, 1),
        (L, 1),
        (L + 1, 2),
        (2 * L - 1, 2),
        (2 * L, 2),
        (2 * L + 1, 3),
        (3 * L, 3),
        (-1, 20),
    ],
)
def test_how_many_fit(window: int, delivered: int, ack: str) -> None:
    assert len(driver_with(window, 20, ack)[1]) == delivered


def test_the_acceptors_default_is_for_the_client_modes_only() -> None:
    fit = -(-10240 // L)
    assert len(driver_with(None, 60)[1]) == fit
    assert len(driver_with(None, 60, "client-individual")[1]) == fit
    assert len(driver_with(None, 60, "auto")[1]) == 60


def test_an_acceptors_own_default() -> None:
    driver = Driver(
        Settings(acceptors=(with_parameters(Acceptor("stomp"), stomp_consumer_window_size=0),))
    )
    driver.connect(1)
    driver.feed(1, subscribe("c", "client", "c"))
    driver.feed(1, subscribe("a", "auto", "a"))
    assert [len(driver.feed(1, send("1", name) * 3)) for name in "ca"] == [1, 1]
    assert driver.feed(1, send("1", "c")) == []


def test_an_auto_subscription_uses_its_window_up() -> None:
    driver, got = driver_with(L, 5, "auto")
    assert len(got) == 2  # an auto frame is shorter than L: it has no ack header
    assert driver.feed(2, send(BODY)) == []


@pytest.mark.parametrize("verb", ["ACK", "NACK"])
def test_with_a_window_of_zero_each_settlement_brings_the_next(verb: str) -> None:
    driver, got = driver_with(0, 3, "client-individual")
    seen = [got[0]]
    for _ in range(2):
        (frame,) = frames(driver.feed(1, f"{verb}\nid:{seen[-1]}\n\n\0"), 1)
        seen.append(frame["ack"])
    assert len(set(seen)) == 3


def test_a_cumulative_ack_gives_back_everything_it_settles() -> None:
    driver, got = driver_with(3 * L, 9)
    assert len(got) == 3
    assert len(frames(driver.feed(1, f"ACK\nid:{got[1]}\n\n\0"), 1)) == 2
    assert len(frames(driver.feed(1, f"ACK\nid:{got[2]}\n\n\0"), 1)) == 1


def test_an_individual_ack_gives_back_its_own_charge_only() -> None:
    driver, got = driver_with(3 * L, 9, "client-individual")
    assert len(frames(driver.feed(1, f"ACK\nid:{got[2]}\n\n\0"), 1)) == 1
    assert len(frames(driver.feed(1, f"ACK\nid:{got[0]}\n\n\0"), 1)) == 1


def test_an_ack_in_a_transaction_makes_room_when_it_is_sent() -> None:
    driver, got = driver_with(0, 2)
    driver.feed(1, "BEGIN\ntransaction:t\n\n\0")
    assert bodies(driver.feed(1, f"ACK\nid:{got[0]}\ntransaction:t\n\n\0"), 1) == [BODY]


@patient
@given(
    st.integers(0, 2000),
    st.lists(st.integers(1, 900), min_size=1, max_size=12),
    st.lists(st.integers(0, 11), max_size=12, unique=True),
)
def test_the_running_credit_rule_with_frames_of_any_length(
    size: int, bodies_of: list[int], acks: list[int]
) -> None:
    """Charge L, ask before the next; every settlement gives back its own charge: predicted from
    octets received."""
    driver = Driver()
    driver.connect(1)
    driver.connect(2)
    driver.feed(1, subscribe(ack="client-individual", headers=f"consumer-window-size:{size}\n"))
    credit, charged = (size or 1), []
    waiting = list(bodies_of)
    got = frames(driver.feed(2, "".join(send("y" * each) for each in bodies_of)), 1)
    for ack in [None, *acks]:
        if ack is not None:
            if ack >= len(charged) or charged[ack] is None:
                continue
            name, charge = charged[ack]
            charged[ack] = None
            credit += charge
            got = frames(driver.feed(1, f"ACK\nid:{name}\n\n\0"), 1)
        for frame in got:
            assert credit > 0
            assert len(frame.body) == waiting.pop(0)
            credit -= frame.size
            charged.append((frame["ack"], frame.size))
        assert credit <= 0 or not waiting


def test_which_header_counts() -> None:
    driver = Driver()
    driver.connect(1)
    for n, headers in enumerate(
        [
            "activemq.prefetchSize:0\n",
            "activemq.prefetchSize:-1\nconsumer-window-size:0\n",
            "consumer-window-size:0\nactivemq.prefetchSize:-1\n",
            "consumer-window-size:0\nconsumer-window-size:-1\n",
        ]
    ):
        driver.feed(1, subscribe(str(n), "client", f"q{n}", headers))
        assert len(frames(driver.feed(1, send("m", f"q{n}") * 3), 1)) == 1


@pytest.mark.parametrize(
    "value",
    ["", " ", " 1", "1 ", "1.0", "ten", "-2", "2147483648", "-2147483649", "0x10", "٣", "9" * 5000],
)
@pytest.mark.parametrize("header", ["consumer-window-size", "activemq.prefetchSize"])
def test_what_is_no_window_is_refused(header: str, value: str) -> None:
    driver = Driver()
    driver.connect(1)
    driver.feed(1, subscribe(headers=f"{header}:{value}\n"))
    assert (driver.observed, driver.closed) == (["ARTEMIS-STOMP-window-1"], [1])


@pytest.mark.parametrize("value", ["2147483647", "+7", "-1", "007"])
def test_what_is_a_window_is_not(value: str) -> None:
    driver = Driver()
    driver.connect(1)
    driver.feed(1, subscribe(headers=f"consumer-window-size:{value}\n"))
    assert driver.closed == []


def test_the_arithmetic_alone() -> None:
    window = ByteWindow(10)
    window.charge(9)
    assert window.has_room()
    window.charge(25)
    assert (window.has_room(), window.credit) == (False, -24)
    window.give_back(24)
    assert not window.has_room()
    window.give_back(1)
    assert window.has_room()
