"""Windows that stay closed, and the side that should open them."""

import pytest

from brokerproof.harness.model.time import NS_PER_S
from brokerproof.harness.oracles.pairs import STUCK, Pair
from brokerproof.harness.trace.event_factory import EventFactory

Frame = tuple[bool, str, dict[str, str]]
QOS: Frame = (True, "basic.qos", {"channel": "1", "prefetch-count": "2"})
DELIVER: list[Frame] = [
    (False, "basic.deliver", {"channel": "1", "delivery-tag": str(tag)}) for tag in (1, 2)
]
ACK: Frame = (True, "basic.ack", {"channel": "1", "delivery-tag": "2", "multiple": "true"})
LINK = {"channel": "0", "handle": "0"}
ATTACH: Frame = (True, "attach", {**LINK, "name": "l", "role": "sender"})
ATTACHED: Frame = (False, "attach", {**LINK, "handle": "7", "name": "l", "role": "receiver"})
FLOW: Frame = (False, "flow", {**LINK, "handle": "7", "delivery-count": "0", "link-credit": "1"})
TRANSFER: Frame = (True, "transfer", LINK)
SUBSCRIBE: Frame = (True, "SUBSCRIBE", {"id": "s", "ack": "client", "prefetch-count": "1"})
MESSAGE: Frame = (False, "MESSAGE", {"subscription": "s", "ack": "a", "message-id": "m"})


@pytest.mark.parametrize(
    ("protocol", "frames", "sentence"),
    [
        ("AMQP091", [QOS, *DELIVER], "the client leaves the window of channel 1 closed"),
        ("AMQP091", [QOS, *DELIVER, ACK], ""),
        ("AMQP091", [QOS, DELIVER[0]], ""),
        ("AMQP", [ATTACH, ATTACHED, FLOW, TRANSFER], "the broker leaves the window of link l"),
        ("AMQP", [ATTACH, ATTACHED, FLOW], ""),
        ("STOMP", [SUBSCRIBE, MESSAGE], "the client leaves the window of subscription s"),
        ("STOMP", [SUBSCRIBE, MESSAGE, (True, "ACK", {"id": "a"})], ""),
        ("AMQP091", [(False, "connection.blocked", {})], "the broker has kept the connection"),
        ("AMQP", [(True, "open", {"idle-time-out": "500"})], ""),
        (
            "AMQP",
            [(True, "open", {"idle-time-out": "9"}), (False, "open", {})],
            "the broker is silent",
        ),
    ],
)
def test_a_window_that_never_opens_again(protocol: str, frames: list[Frame], sentence: str) -> None:
    pair, factory = Pair(), EventFactory(1)
    for out, command, headers in frames:
        pair.read(factory.frame(0, out, protocol, command, tuple(headers.items()), b"", 1))
    assert not [*pair.pass_time(NS_PER_S)]
    said = [*pair.pass_time(2 * NS_PER_S + STUCK), *pair.pass_time(2 * STUCK)]
    assert [sentence in one for one in said] == ([True] if sentence else [])
