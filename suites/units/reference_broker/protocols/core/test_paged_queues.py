"""CORE consumers and pages: reading ahead is limited, and settled messages make room."""

import dataclasses
import struct

import pytest

from brokerproof.harness.protocols.core.codec import FIRST, frame
from brokerproof.reference_broker.assembly import create_broker
from brokerproof.reference_broker.persistence.store_from_settings import store
from brokerproof.reference_broker.protocols.core import codes
from brokerproof.suites.units.drivers.broker import Driver
from brokerproof.suites.units.drivers.core import CORE, CoreClient, bodies
from brokerproof.suites.units.drivers.persistence import paging

COUNT, AHEAD = 12, 3


@pytest.mark.parametrize("settling", ["acknowledge", "acknowledge-one", "expired"])
def test_a_consumer_without_a_window_gets_all_pages_as_it_settles(settling: str) -> None:
    """Its credit is unlimited, so only its settlements can request more."""
    settings = dataclasses.replace(
        paging(500, 1024, max_read_page_messages=AHEAD), acceptors=(CORE,)
    )
    driver = Driver(settings)
    driver.broker = create_broker(settings, store=store(settings, None, None))
    one = CoreClient(driver)
    one.session()
    one.queue("q")
    sent = [b"%d" % number for number in range(COUNT)]
    for body in sent:
        one.publish("q", body)
    received = [packet for packet in one.consumer("q", credit=-1) if packet.name == "receive"]
    assert len(received) < COUNT
    for settled in range(COUNT):
        number = received[settled].message.id
        if settling == "expired":  # the harness has no such packet
            more = one.feed(frame(codes.EXPIRED, FIRST, struct.pack(">qq", 0, number)))
        else:
            more = one.say(settling, consumer=0, message=number)
        received += [packet for packet in more if packet.name == "receive"]
    assert bodies(received) == sent
