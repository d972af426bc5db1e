"""Headers of consumer windows that no case of suites/flow sends."""

import pytest

from brokerproof.suites.units.drivers.broker import Driver, frames, send, subscribe


def test_of_a_repeated_header_the_first_counts() -> None:
    driver = Driver().connected(1)
    headers = "consumer-window-size:0\nconsumer-window-size:-1\n"
    driver.feed(1, subscribe(ack="client", headers=headers))
    assert len(frames(driver.feed(1, send("m") * 3), 1)) == 1


@pytest.mark.parametrize(
    "value",
    ["", " ", " 1", "1 ", "1.0", "ten", "-2", "2147483648", "-2147483649", "0x10", "٣", "9" * 5000],
)
@pytest.mark.parametrize("header", ["consumer-window-size", "activemq.prefetchSize"])
def test_what_is_no_window_is_refused(header: str, value: str) -> None:
    driver = Driver().connected(1)
    driver.feed(1, subscribe(headers=f"{header}:{value}\n"))
    assert (driver.observed, driver.closed) == (["ARTEMIS-STOMP-window-1"], [1])
