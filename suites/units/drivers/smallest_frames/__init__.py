"""Scenarios with many of the smallest legal frames on one connection: they measure the cost of a
byte.

A scenario registers itself in ``SCENARIOS`` of :mod:`.feed` when its module is imported.
"""

from brokerproof.suites.units.drivers.smallest_frames import amqp091, amqp10, java, stomp
from brokerproof.suites.units.drivers.smallest_frames.feed import SCENARIOS, Feed

__all__ = ["SCENARIOS", "Feed", "amqp091", "amqp10", "java", "stomp"]
