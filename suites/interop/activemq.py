"""ActiveMQ's own client against an OpenWire acceptor: windows, prefetch, transactions, topics, JMS.

These tests need a JDK and ActiveMQ's jars, so they are not collected by default: name the file.
"""

from brokerproof.harness.cases.bench import Bench
from brokerproof.harness.cases.case import case
from brokerproof.harness.clients import jms
from brokerproof.suites.openwire.steps import OPENWIRE

ENCODING_OPTIONS = "OPENWIRE-NEG-3"
MESSAGE_UNCHANGED = "OPENWIRE-ENC-1"
COMMAND_FAILED = "OPENWIRE-RESP-2"
PRODUCER_ACKS = "OPENWIRE-ACK-1"
MESSAGE_PULL = "OPENWIRE-PREFETCH-3"


@case(
    ENCODING_OPTIONS,
    MESSAGE_UNCHANGED,
    COMMAND_FAILED,
    PRODUCER_ACKS,
    MESSAGE_PULL,
    needs={OPENWIRE},
)
def test_activemqs_own_client_goes_all_its_ways(target: Bench) -> None:
    """The client sends fifty messages through a window of four, consumes with small limits and
    without one, commits and rolls back, subscribes durably, gets a reply through a temporary queue,
    browses, and uses a selector. A malformed selector is refused. Every step succeeds.

    One scenario, because the client runs as one program.
    """
    identity = target.target.identity
    went, wrong = jms.run(
        target.world, "openwire", identity.login, identity.passcode, target.fresh_name()
    )
    held = tuple(went) == jms.STEPS and not wrong
    target.record_finding(
        (ENCODING_OPTIONS, MESSAGE_UNCHANGED, COMMAND_FAILED, PRODUCER_ACKS, MESSAGE_PULL),
        held,
        f"it went through {', '.join(went) or 'nothing'}{'; ' if wrong else ''}{wrong}",
    )
