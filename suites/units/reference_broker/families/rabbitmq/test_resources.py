"""Memory and disk alarms: when they are raised, and how they affect connections (RABBITMQ-FLOW)."""

from brokerproof.harness.model.broker_io import LimitsSet, PeerGone, ResourcesRead
from brokerproof.harness.model.enums import CloseHow
from brokerproof.harness.model.time import seconds
from brokerproof.reference_broker.config.rabbitmq import rabbitmq_conf
from brokerproof.reference_broker.runtime.control_input import Control
from brokerproof.reference_broker.settings.parameters import with_parameters
from brokerproof.suites.units.drivers.amqp091 import Driver, with_queue


def test_memory_is_looked_at_every_second_and_limits_count_at_once() -> None:
    driver, conn = with_queue()
    driver.feed(ResourcesRead(100, 1000))
    driver.feed(ResourcesRead(401, 1000))
    driver.advance_to(seconds(1) - 1)
    driver.publish(conn, "q", b"before")
    assert driver.count(conn, "q") == 1
    driver.advance_to(seconds(1))
    driver.publish(conn, "q", b"blocked")
    (told,) = driver.got(conn)
    assert (told.name, told["reason"]) == ("connection.blocked", "low on memory")
    driver.feed(LimitsSet(memory=0.5))
    assert [frame.name for frame in driver.got(conn)] == ["connection.unblocked"]
    assert driver.count(conn, "q") == 2
    driver.feed(LimitsSet(memory=0))
    driver.publish(conn, "q", b"again")
    assert driver.got(conn)[0].name == "connection.blocked"


def _under_alarm(driver: Driver) -> None:
    driver.feed(ResourcesRead(1, 1000, disk_free=10**12))
    driver.feed(LimitsSet(memory=0))


def test_who_publishes_is_not_read_and_others_go_on() -> None:
    driver = Driver()
    publisher, quiet, consumer = driver.connect(), driver.connect(capabilities={}), driver.connect()
    driver.declare(consumer, "q")
    driver.publish(publisher, "q", b"1")
    _under_alarm(driver)
    assert driver.got(publisher) == []  # it does not publish
    for conn in (publisher, quiet):
        driver.publish(conn, "q", b"%d" % conn)
    assert driver.unread == {publisher, quiet}
    assert [frame.name for frame in driver.got(publisher)] == ["connection.blocked"]
    assert driver.got(quiet) == []
    driver.send(consumer, "basic.consume", {"queue": "q"})
    assert [frame.body for frame in driver.got(consumer) if frame.name == "basic.deliver"] == [b"1"]
    driver.send(publisher, "channel.flow", {"active": True})
    assert driver.got(publisher) == []
    driver.feed(LimitsSet(memory=100.0))
    assert driver.unread == set()
    expected = ["connection.unblocked", "channel.flow-ok"]
    assert [frame.name for frame in driver.got(publisher)] == expected
    assert sorted(frame.body for frame in driver.got(consumer)) == [b"1", b"2"]


def test_several_alarms_and_a_message_without_a_body() -> None:
    driver, conn = with_queue()
    _under_alarm(driver)
    driver.feed(LimitsSet(disk=10**13))
    driver.publish(conn, "q", b"")  # complete, so accepted before reading stops
    assert driver.got(conn)[0]["reason"] == "low on memory & disk"
    assert driver.count(driver.connect(), "q") == 1
    driver.feed(LimitsSet(memory=100.0))
    assert driver.unread == {conn}
    driver.feed(LimitsSet(disk=0))
    assert driver.unread == set()


def test_heart_beats_while_blocked() -> None:
    driver = Driver()
    conn = driver.connect(heartbeat=10)
    driver.declare(conn, "q")
    _under_alarm(driver)
    driver.publish(conn, "q", b"x")
    driver.got(conn)
    driver.advance_to(seconds(100))
    assert conn not in driver.closed
    assert [frame.name for frame in driver.got(conn)].count("heartbeat") == 20
    driver.feed(LimitsSet(memory=100.0))
    driver.advance_to(seconds(119))
    assert conn not in driver.closed
    driver.advance_to(seconds(130))
    assert conn in driver.closed


def test_a_blocked_connection_may_go() -> None:
    driver, conn = with_queue()
    _under_alarm(driver)
    driver.publish(conn, "q", b"x")
    driver.feed(PeerGone(conn, CloseHow.RESET))
    driver.feed(LimitsSet(memory=100.0))
    assert driver.count(driver.connect(), "q") == 0


def test_limits_come_from_the_configuration() -> None:
    settings = with_parameters(rabbitmq_conf.default(), memory_high_watermark=0)
    driver, conn = with_queue(settings)
    driver.feed(ResourcesRead(1, 1000))
    driver.publish(conn, "q", b"x")
    assert driver.unread == {conn}


def test_limits_are_told_by_lines() -> None:
    told: list[LimitsSet] = []
    complaints: list[str] = []
    control = Control(told.append, complaints.append)
    control.read(b'{"memory": 0.5}\n{"disk": 10, "pag')
    assert told == [LimitsSet(memory=0.5)]
    control.read(b'ing": 0.75}\n')
    assert told[1:] == [LimitsSet(disk=10, paging=0.75)]
    control.read(b'{"memory": true}\n{"cpu": 1}\nnothing\n{}\n[1]\n{"disk": -1}\n')
    assert len(told) == 2
    assert len(complaints) == 6
    assert (
        complaints[1]
        == "--control: '{\"cpu\": 1}' sets no limit; write a JSON object with memory, disk, paging"
    )
