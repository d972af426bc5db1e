"""Commands that the specification does not list: the server may answer with ERROR.

Whatever a server does with such a frame, it must read the whole frame, so that it finds the next
one. Commands that begin like a listed command are difficult: a reader that recognises commands by
their first letters confuses them, or waits for letters that never arrive.
"""

from collections.abc import Iterator

import pytest
from hypothesis import strategies as st

from brokerproof.suites.api import PATIENCE, Bench, Target, case, either, over
from brokerproof.suites.api.stomp import ERROR, frame
from brokerproof.suites.steps.queues import QUIET
from brokerproof.suites.steps.refusals import bystander, error_from

MAY_SEND_ERROR = {"1.1": "STOMP11-ONCE-02", "1.2": "STOMP12-CLIENT-02"}
SEND_ANSWERED = {"1.1": "STOMP11-SEND-07", "1.2": "STOMP12-SEND-07"}
OTHER_COMMAND = {"1.1": "STOMP11-READING-ONCE-01", "1.2": "STOMP12-READING-CLIENT-01"}

CLIENT_COMMANDS = (
    "SEND",
    "SUBSCRIBE",
    "UNSUBSCRIBE",
    "BEGIN",
    "COMMIT",
    "ABORT",
    "ACK",
    "NACK",
    "DISCONNECT",
    "CONNECT",
    "STOMP",
)
SERVER_COMMANDS = ("CONNECTED", "MESSAGE", "RECEIPT", "ERROR")
LISTED = frozenset((*CLIENT_COMMANDS, *SERVER_COMMANDS))


def beginning_like(command: str) -> Iterator[str]:
    """Yield unlisted commands that begin like ``command``: shorter, longer, and of the same length
    with a different last letter or all letters after the second different."""
    words = (
        command[:-1],
        command[:2],
        f"{command}S",
        f"{command}{command}",
        f"{command[:-1]}X",
        command[:2] + "X" * (len(command) - 2),
    )
    yield from (word for word in words if word not in LISTED)


UNLISTED = tuple(
    dict.fromkeys(
        word for command in (*CLIENT_COMMANDS, *SERVER_COMMANDS) for word in beginning_like(command)
    )
)


@case(MAY_SEND_ERROR)
@pytest.mark.parametrize("command", ["HELLO", "SENDALL", "MESSAGE", "RECEIPT", "X" * 100])
def test_an_unlisted_command_may_be_answered_with_error(
    target: Bench, version: str, command: str
) -> None:
    """A command that no version lists for clients may be answered with ERROR, in 1.2 followed by
    the end of the connection. Other connections are still served."""
    with bystander(target, version):
        peer = target.stomp(version)
        peer.settle()
        peer.send(command, {"x": "y"})
        error = error_from(peer)
        if error is not None and version == "1.2":
            target.wait_until(lambda: peer.ended is not None, PATIENCE)
        end = "stayed open" if peer.ended is None else f"ended ({peer.ended.how})"
        if version == "1.2":
            reaction = "ends" if peer.ended is not None else "error" if error else "ignores"
            target.record_behaviour("stomp.unlisted-command", reaction)
        answered = error is not None and (version == "1.1" or peer.ended is not None)
        target.record_finding(
            MAY_SEND_ERROR[version],
            answered,
            f"{command[:20]} was answered with {error.brief() if error else 'no ERROR'}, and the"
            f" connection {end}",
        )


@case(SEND_ANSWERED)
@pytest.mark.parametrize("command", ["HELLO", *SERVER_COMMANDS])
def test_a_send_behind_an_unlisted_command_is_answered(
    target: Bench, version: str, command: str
) -> None:
    """A SEND that asks for a receipt follows a frame whose command is unlisted or a server's.
    RECEIPT or ERROR answers it, or the connection ends. Other connections are still served."""
    _answered_behind(target, version, command)


@case(SEND_ANSWERED)
@over(
    examples=30,
    always=lambda target: [{"word": "SUBS"}, {"word": "SENX"}],
    word=st.sampled_from(UNLISTED),
)
def test_a_send_behind_what_begins_like_a_command_is_answered(
    target: Bench, version: str, word: str
) -> None:
    """A SEND that asks for a receipt follows a frame whose command begins like a listed one.
    RECEIPT or ERROR answers it, or the connection ends. Other connections are still served."""
    _answered_behind(target, version, word)


def _answered_behind(target: Bench, version: str, command: str) -> None:
    with bystander(target, version):
        peer, to = target.stomp(version), target.destination()
        peer.publish(to, b"before")
        peer.send(command, {"x": "y"})
        peer.publish(to, b"behind", {"receipt": "behind"}, receipt=False)
        answer = peer.watch_for(either(frame("RECEIPT", {"receipt-id": "behind"}), ERROR))
        observed = peer.instead() if answer is None else answer.brief()
        target.record_finding(
            SEND_ANSWERED[version],
            answer is not None or peer.ended is not None,
            f"after {command} and a SEND: {observed}; expected RECEIPT or ERROR",
        )


EFFECTS = {"SEND": "stomp", "SUBSCRIBE": "stomp", "COMMIT": "transactions"}
"""Commands that cause a message to arrive, and what each requires of a target."""


def effective(target: Target) -> list[str]:
    capabilities = target.identity.capabilities
    return [command for command, needed in EFFECTS.items() if needed in capabilities]


@case(OTHER_COMMAND)
@over(
    examples=20,
    always=lambda target: [
        {"pair": (command, f"{command[:-1]}X")} for command in effective(target)
    ],
    pair=lambda target: st.sampled_from(effective(target)).flatmap(
        lambda command: st.tuples(st.just(command), st.sampled_from([*beginning_like(command)]))
    ),
)
def test_a_command_that_begins_like_a_listed_one_has_not_its_effect(
    target: Bench, version: str, pair: tuple[str, str]
) -> None:
    """A frame is a valid SEND, SUBSCRIBE or COMMIT except that its command shares only the first
    letters. The message that the valid frame would cause does not arrive."""
    command, word = pair
    with bystander(target, version):
        to, offender, witness = target.destination(), target.stomp(version), target.stomp(version)
        match command:
            case "SEND":
                witness.subscribe(to)
                offender.send(word, (("destination", to.name), *to.send_headers), b"one")
            case "COMMIT":
                witness.subscribe(to)
                offender.request("BEGIN", {"transaction": offender.transaction})
                offender.publish(to, b"one", {"transaction": offender.transaction}, receipt=False)
                offender.send(word, {"transaction": offender.transaction})
            case _:
                place = (("destination", to.name), *to.subscribe_headers, ("id", "0"))
                offender.send(word, place)
                witness.publish(to, b"one")
                witness = offender
        arrived = target.wait_until(lambda: witness.messages_seen > 0, QUIET)
        detail = f"with {word} in place of {command}, {witness.messages_seen} messages arrived"
        target.record_finding(OTHER_COMMAND[version], not arrived, detail)
        if witness is not offender:
            target.stomp(version).publish(to, b"after")
            witness.message(body=b"after")
