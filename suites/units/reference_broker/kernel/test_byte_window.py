"""Consumer windows in bytes: sizes around one and two frames, what is charged and what comes
back."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from brokerproof.reference_broker.kernel.credit import ByteWindow
from brokerproof.suites.units.drivers.broker import Driver, frames, patient, send, subscribe


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
    bytes received."""
    driver = Driver()
    driver.connect(1)
    driver.connect(2)
    driver.feed(1, subscribe(ack="client-individual", headers=f"consumer-window-size:{size}\n"))
    credit, charged = (size or 1), []
    waiting = list(bodies_of)
    got = frames(driver.feed(2, "".join(send("y" * size) for size in bodies_of)), 1)
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
