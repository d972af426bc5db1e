"""Commands that the specification does not list: the server may answer with ERROR (and, in 1.2,
then closes)."""

from __future__ import annotations

import pytest

from brokerproof.harness.cases.bench import Bench
from brokerproof.harness.cases.case import case
from brokerproof.harness.protocols.conversation import PATIENCE
from brokerproof.suites.steps.refusals import bystander, error_from

MAY_SEND_ERROR = {"1.1": "STOMP11-ONCE-02", "1.2": "STOMP12-CLIENT-02"}


@case(MAY_SEND_ERROR)
@pytest.mark.parametrize("command", ["HELLO", "SENDALL", "MESSAGE", "RECEIPT", "X" * 100])
def test_an_unlisted_command_may_be_answered_with_error(
    target: Bench, version: str, command: str
) -> None:
    """A command that no version lists for clients may be answered with ERROR, in 1.2 followed by
    the end of the connection. Other connections are served."""
    with bystander(target, version):
        peer = target.stomp(version)
        peer.settle()
        peer.send(command, {"x": "y"})
        error = error_from(peer)
        if error is not None and version == "1.2":
            target.wait_until(lambda: peer.ended is not None, PATIENCE)
        end = "stayed open" if peer.ended is None else f"ended ({peer.ended.how})"
        answered = error is not None and (version == "1.1" or peer.ended is not None)
        target.record_finding(
            MAY_SEND_ERROR[version],
            answered,
            f"{command[:20]} was answered with {error.brief() if error else 'no ERROR'}, and the"
            f" connection {end}",
        )
