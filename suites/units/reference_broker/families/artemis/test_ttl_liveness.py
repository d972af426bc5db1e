"""The instants of closes after silence and of the broker's heartbeats, each tested one nanosecond
before, at, and one nanosecond after."""

from brokerproof.harness.model.broker_io import Close, SendBytes
from brokerproof.harness.model.time import Instant, ms
from brokerproof.reference_broker.settings.acceptor import Acceptor
from brokerproof.reference_broker.settings.parameters import with_parameters
from brokerproof.reference_broker.settings.settings import Settings
from brokerproof.suites.units.drivers.broker import Driver, only


def settings(ttl: int = 5000, interval: int = 2000, handshake: int = 0) -> Settings:
    acceptor = with_parameters(
        Acceptor("stomp", handshake_timeout_ms=handshake), connection_ttl_ms=ttl
    )
    return Settings(acceptors=(acceptor,), connection_ttl_check_interval_ms=interval)


def closing(driver: Driver, conn: int, until: Instant) -> Instant | None:
    return next((at for at, effect in driver.run(until) if effect == Close(conn)), None)


def test_a_ttl_of_a_year_costs_nothing() -> None:
    year = 365 * 24 * 3600 * 1000
    driver = Driver(settings(year, interval=1)).connected(1)
    assert driver.broker.next_deadline() == ms(year)
    assert closing(driver, 1, ms(year)) == ms(year)


def test_a_late_timer_does_not_make_beats_drift_nor_pile_up() -> None:
    driver = Driver(Settings())
    driver.connect(1, headers="heart-beat:0,1000\n")
    assert driver.at(ms(1010)) == [SendBytes(1, b"\n")]
    assert driver.broker.next_deadline() == ms(2000)
    assert driver.at(ms(5500)) == [SendBytes(1, b"\n")]
    assert driver.broker.next_deadline() == ms(6500)


def test_no_connect_in_time() -> None:
    driver = Driver(settings(60000, handshake=10000))
    driver.open(1)
    driver.feed(1, "CONN")
    assert driver.at(ms(10000) - 1) == []
    effects = driver.at(ms(10000))
    assert only(effects, 1)["message"] == "no CONNECT in time"
    assert effects[-1] == Close(1)
