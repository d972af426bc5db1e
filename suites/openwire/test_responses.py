"""Responses: one for each command that requires one, and the effects of a failed command."""

from hypothesis import strategies as st

from brokerproof.harness.protocols.openwire.raw_peer import RESPONSES
from brokerproof.suites.api import Bench, case, over, shown
from brokerproof.suites.api.openwire import OpenWirePeer, Structure, command
from brokerproof.suites.openwire.steps import OPENWIRE, QUIET, bystander, fresh_queue

RESPONSE_IF_REQUIRED = "OPENWIRE-RESP-1"
COMMAND_FAILED = "OPENWIRE-RESP-2"
NO_STACK_TRACE = "OPENWIRE-ENC-2"

COMMANDS = ("SessionInfo", "ProducerInfo", "ConsumerInfo", "message", "FlushCommand", "RemoveInfo")


def _say(peer: OpenWirePeer, place: Structure, kind: str, number: int, response: bool) -> int:
    """Send a command that succeeds; return the command's id."""
    producer = Structure(
        "ProducerId", {"connectionId": peer.name, "value": 100 + number, "sessionId": 1}
    )
    consumer = Structure(
        "ConsumerId", {"connectionId": peer.name, "sessionId": 1, "value": 100 + number}
    )
    session = peer.session(100 + number)
    fields: dict[str, object] = {}
    match kind:
        case "SessionInfo":
            fields = {"sessionId": session}
        case "ProducerInfo":
            fields = {"producerId": producer, "destination": place}
        case "ConsumerInfo":
            fields = {"consumerId": consumer, "destination": place, "prefetchSize": 0}
        case "message":
            peer.send("ProducerInfo", {"producerId": producer, "destination": place})
            return peer.publish(peer.message(producer, place, b"content"), response=response)
        case "RemoveInfo":
            peer.send("ProducerInfo", {"producerId": producer, "destination": place})
            fields = {"objectId": producer, "lastDeliveredSequenceId": 0}
    return peer.send(kind, fields, response=response)


@case(RESPONSE_IF_REQUIRED, needs={OPENWIRE})
@over(
    examples=30,
    always=lambda target: [
        {"commands": [(kind, asks) for kind in COMMANDS for asks in (True, False)]}
    ],
    commands=st.lists(st.tuples(st.sampled_from(COMMANDS), st.booleans()), min_size=1, max_size=12),
)
def test_who_asks_for_a_response_gets_one(target: Bench, commands: list[tuple[str, bool]]) -> None:
    """Commands of all kinds are sent, some with responseRequired. Each of these gets one Response,
    in order; the rest get none."""
    peer, place = target.openwire(), fresh_queue(target)
    asked = []
    for number, (kind, response) in enumerate(commands):
        sent = _say(peer, place, kind, number, response)
        if response:
            asked.append(sent)
    barrier = peer.send("FlushCommand", response=True)
    peer.expect(command("Response", correlationId=barrier), proves=RESPONSE_IF_REQUIRED)
    responses = [reply["correlationId"] for reply in peer.inbox if reply.name in RESPONSES]
    peer.inbox.clear()
    words = f"{shown(responses)} got responses; {shown(asked)} had asked for one"
    target.record_finding(RESPONSE_IF_REQUIRED, responses == asked, words)
    peer.expect_nothing(for_=QUIET, proves=RESPONSE_IF_REQUIRED, why="everything has been answered")


def _stranger(peer: OpenWirePeer, kind: str) -> tuple[str, dict[str, object]]:
    """Return a command that fails because its session, producer or transaction was never created or
    its selector is malformed."""
    session, place = 77, Structure("ActiveMQQueue", {"physicalName": "nowhere"})
    producer = Structure(
        "ProducerId", {"connectionId": peer.name, "value": 1, "sessionId": session}
    )
    consumer = Structure(
        "ConsumerId", {"connectionId": peer.name, "sessionId": session, "value": 1}
    )
    nobody = Structure("ProducerId", {"connectionId": "ID:nobody", "value": 1, "sessionId": 1})
    transaction = Structure("LocalTransactionId", {"value": 9, "connectionId": peer.connection})
    match kind:
        case "producer of no session":
            return "ProducerInfo", {"producerId": producer, "destination": place}
        case "producer of no connection":
            return "ProducerInfo", {"producerId": nobody, "destination": place}
        case "consumer of no session":
            return "ConsumerInfo", {"consumerId": consumer, "destination": place, "prefetchSize": 1}
        case "end of no producer":
            return "RemoveInfo", {"objectId": producer}
        case "message of no producer":
            message = peer.message(producer, place, b"content")
            return message.name, dict(message.fields)
        case "bad selector":
            fine = Structure("ConsumerId", {"connectionId": peer.name, "sessionId": 1, "value": 55})
            return "ConsumerInfo", {
                "consumerId": fine,
                "destination": place,
                "prefetchSize": 1,
                "selector": "a >",
            }
    return "TransactionInfo", {
        "connectionId": peer.connection,
        "transactionId": transaction,
        "type": 2,
    }


STRANGE = (
    "producer of no session",
    "producer of no connection",
    "consumer of no session",
    "end of no producer",
    "message of no producer",
    "bad selector",
    "commit of no transaction",
)


@case(COMMAND_FAILED, NO_STACK_TRACE, needs={OPENWIRE})
@over(
    examples=14,
    always=lambda target: [
        {"kind": kind, "response": with_response}
        for kind in STRANGE
        for with_response in (True, False)
    ],
    kind=st.sampled_from(STRANGE),
    response=st.booleans(),
)
def test_what_cannot_be_done_is_told(target: Bench, kind: str, response: bool) -> None:
    """A command that fails is answered with an ExceptionResponse if it requires a response,
    otherwise with ConnectionError, without a stack trace. This connection and others still work."""
    with bystander(target):
        peer = target.openwire()
        name, fields = _stranger(peer, kind)
        number = peer.send(name, fields, response=response)
        if response:
            answer = peer.refused(number, proves=(COMMAND_FAILED, NO_STACK_TRACE))
        else:
            answer = peer.expect(
                command("ConnectionError"), proves=(COMMAND_FAILED, NO_STACK_TRACE)
            )
        failed = answer["exception"]
        detail = f"a {kind} was answered with {answer.brief()}"
        target.record_finding(COMMAND_FAILED, failed is not None, detail)
        peer.expect_nothing(
            for_=QUIET, proves=COMMAND_FAILED, why=f"a {kind} was answered and the connection stays"
        )
        peer.settle()
