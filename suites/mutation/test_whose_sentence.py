"""A fault of foreign brokers is attributed to the sentence that it violates, and to no other."""

import re
from collections.abc import Mapping

import pytest

from brokerproof.harness.cases.calls import all_calls
from brokerproof.harness.model.verdicts import Verdict
from brokerproof.reference_broker.protocols.stomp import commands, refusal
from brokerproof.reference_broker.protocols.stomp.connection import StompConnection
from brokerproof.reference_broker.protocols.stomp.encoder import FrameEncoder
from brokerproof.reference_broker.protocols.stomp.parser import FrameParser
from brokerproof.reference_broker.protocols.stomp.refusal import Refusal
from brokerproof.suites.mutation import matrix
from brokerproof.suites.mutation.mutant import Group
from brokerproof.suites.mutation.target import MutantTarget

strangers = Group("strangers")


@strangers.override(commands.COMMANDS, "UNSUBSCRIBE", breaks="")
def needs_a_destination(original, reached, session, frame):
    """UNSUBSCRIBE without a destination is refused, as coilmq does."""
    if reached(frame.get("destination") is None):
        raise Refusal(refusal.UNSUB_NO_ID, session.version, "no destination")
    return original(session, frame)


@strangers.override(FrameEncoder, "message", breaks="")
def without_ack_headers(original, reached, self, opening, message, ack, redelivered):
    """MESSAGE of 1.2 has no header ack, as coilmq does."""
    reached(bool(ack))
    return original(self, opening, message, b"", redelivered)


@strangers.mutant("")
def settled_when_sent(patch, reached):
    """Mode client-individual is treated as auto, and ACK does nothing, as in coilmq."""

    @patch.override(commands, "_ack_mode")
    def mode(original, text, version):
        return original("auto" if reached(text == "client-individual") else text, version)

    @patch.override(commands.COMMANDS, "ACK")
    def ack(original, session, frame):
        return None


@strangers.override(StompConnection, "tell", breaks="")
def ends_behind_a_short_body(original, reached, self, problem, frame=None):
    """A SEND whose body continues beyond its content-length is confirmed; the rest, which is not a
    frame, ends the connection without an ERROR, which is a MAY."""
    if reached(problem.message == refusal.NO_NUL.message):
        self.shared.outbox.send(self.conn, self.encoder.receipt(problem.receipt))
    else:
        original(self, problem, frame)


@strangers.override(commands.COMMANDS, "SUBSCRIBE", breaks="")
def unconfirmed(original, reached, session, frame):
    """No SUBSCRIBE is ever confirmed, as in go-stomp's server."""
    after = original(session, frame)
    if after is not None:
        after()
    reached()
    return commands.withheld


@strangers.override(StompConnection, "_command", breaks="")
def large_transactions_cut(original, reached, self, frame):
    """COMMIT of more than a hundred messages ends the connection, as coilmq does."""
    held = self.transactions.get(frame.get("transaction"))
    if reached(frame.head.command == "COMMIT" and held is not None and len(held._sends) > 100):
        return self.close()
    return original(self, frame)


@strangers.override(StompConnection, "receive", breaks="")
def whole_frames_only(original, reached, self, now, data):
    """The connection ends unless each read of 4096 bytes ends with a frame, as in coilmq."""
    cut = len(data) > 4096 or data.rstrip(b"\r\n")[-1:] not in (b"\0", b"")
    return self.close() if reached(cut) else original(self, now, data)


@strangers.override(FrameParser, "_unescape", breaks="")
def carriage_returns_stay_escaped(original, reached, self, text, number):
    """The escape of CR is not decoded, as in ActiveMQ 5.15."""
    kept = re.sub(r"\\(.)", lambda escape: r"\\r" if escape[1] == "r" else escape[0], text)
    return original(self, kept if reached(kept != text) else text, number)


EXPECTED: Mapping[str, tuple[str, str]] = {
    "unconfirmed": (r"a_number_of_subscribe_works", r""),
    "needs-a-destination": (
        r"receipts\.(every|a_frame)|a_server_speaks|stomp\.unsubscribe\.nothing|every_call_that",
        r"STOMP1\d-UNSUB.*",
    ),
    "without-ack-headers": (
        r"clients\.stomppy\..*(1\.2|nack)|to_be_acknowledged",
        "STOMP12-MSG-05",
    ),
    "settled-when-sent": (r"clients\.stomppy\.(in_mode_client_ind|a_nack_of_one)", r""),
    "ends-behind-a-short-body": (r"a_number_of_send_works.*content", r""),
    "large-transactions-cut": (r"a_large_transaction", r""),
    "whole-frames-only": (r"each_line_of_a_frame_may_end|any_number_of_receipts", r""),
    "carriage-returns-stay-escaped": (
        r"clients\.stomppy\.header_text_survives.*1\.2|the_server_sends_obeys.*1\.2",
        r"STOMP12-ENC-04",
    ),
}


@pytest.mark.parametrize("name", EXPECTED)
def test_a_fault_is_charged_to_its_own_sentence(name: str) -> None:
    (mutant,) = (each for each in strangers.mutants if each.name == f"strangers.{name}")
    chosen, broken = EXPECTED[name]
    calls = [call for call in all_calls() if re.search(chosen, call.id)]
    results = list(matrix.results_on(MutantTarget(mutant), calls, matrix.Plan()))
    assert sum(reached for _, reached in results)
    findings = [finding for result, _ in results for finding in result.findings]
    accused = [each for each in findings if each.verdict is Verdict.FAIL]
    assert not [each for each in accused if not re.fullmatch(broken, each.requirement)]
    assert not [result.detail for result, _ in results if result.verdict is Verdict.ERROR]
    assert bool(accused) == bool(broken)
