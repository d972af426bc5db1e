"""Login and passcode: correct ones open a session; wrong ones get a reason and a close.

These cases are only for targets that have credentials. A server need not be secured: if it admits
everybody, the case records a note, not a violation.
"""

from hypothesis import strategies as st

from brokerproof.suites.api import Bench, case, over
from brokerproof.suites.api.stomp import CONNECTED
from brokerproof.suites.stomp.error_recovery_steps import Bystander, fate_of_stranger

ADMITTED = {"1.0": "STOMP10-CONNECT-02", "1.1": "STOMP11-CONNECT-01", "1.2": "STOMP12-CONNECT-01"}
MAY_REFUSE = {"1.1": "STOMP11-CONNECT-02", "1.2": "STOMP12-CONNECT-02"}
REFUSED_WITH_ERROR = {"1.1": "STOMP11-CONNECT-03", "1.2": "STOMP12-CONNECT-03"}
CLOSE_AFTER_ERROR = "STOMP12-ERR-02"
BLANKS_ARE_KEPT = {"1.1": "STOMP11-ENC-09", "1.2": "STOMP12-ENC-10"}

LOGIN = ("login", "passcode")
WRONG = (
    "wrong passcode",
    "wrong login",
    "login and passcode swapped",
    "passcode doubled, first in the other case",
    "longer passcode",
    "shorter passcode",
    "empty passcode",
    "no passcode",
    "no login",
    "neither login nor passcode",
)


def credentials(target: Bench, how: str) -> dict[str, str]:
    """Return the target's login and passcode, corrupted in the way that ``how`` names."""
    identity = target.target.identity
    login, passcode = identity.login or "", identity.passcode or ""
    return {
        "wrong passcode": {"login": login, "passcode": "certainly not this"},
        "wrong login": {"login": "certainly-nobody", "passcode": passcode},
        "login and passcode swapped": {"login": f"{passcode}x", "passcode": login},
        "passcode doubled, first in the other case": {
            "login": login,
            "passcode": passcode.swapcase() + passcode,
        },
        "longer passcode": {"login": login, "passcode": f"{passcode}x"},
        "shorter passcode": {"login": login, "passcode": passcode[:-1]},
        "empty passcode": {"login": login, "passcode": ""},
        "no passcode": {"login": login},
        "no login": {"passcode": passcode},
        "neither login nor passcode": {},
    }[how]


@case(ADMITTED, needs={"login"})
def test_the_right_login_and_passcode_are_admitted(target: Bench, version: str) -> None:
    """CONNECT with the target's login and passcode gets CONNECTED, and the session works."""
    peer = target.peer(version)
    peer.connect(target.connect_headers(version), proves=ADMITTED[version])
    to = target.destination()
    peer.subscribe(to)
    peer.publish(to, b"body")
    peer.message(body=b"body", proves=ADMITTED[version])


@case(MAY_REFUSE, REFUSED_WITH_ERROR, needs={"login"})
@over(examples=20, how=st.sampled_from(WRONG), command=st.sampled_from(["CONNECT", "STOMP"]))
def test_a_wrong_login_or_passcode_is_turned_away_with_a_reason(
    target: Bench, version: str, how: str, command: str
) -> None:
    """CONNECT with a wrong or missing login or passcode may be refused. A refusal is an ERROR
    followed by a close, without CONNECTED."""
    bystander = Bystander(target, version)
    headers = [header for header in target.connect_headers(version) if header[0] not in LOGIN]
    peer = target.peer(version)
    peer.send(command, (*headers, *credentials(target, how).items()))
    admitted = peer.watch_for(CONNECTED) is not None
    seen = fate_of_stranger(target, peer)
    if admitted:
        target.record_finding(MAY_REFUSE[version], False, f"login ({how}): the client was admitted")
        detail = f"login ({how}): the client was admitted, and then {seen}"
        target.record_finding(REFUSED_WITH_ERROR[version], not seen.refused, detail)
    else:
        target.record_finding(MAY_REFUSE[version], seen.refused, f"login ({how}): {seen}")
        target.record_finding(
            REFUSED_WITH_ERROR[version],
            seen.explained and seen.ended is not None,
            f"login ({how}): {seen}",
        )
    late = peer.take(CONNECTED)
    words = f"login ({how}): after the answer, {late.brief() if late else 'no CONNECTED'} arrived"
    target.record_finding(REFUSED_WITH_ERROR[version], late is None, words)
    bystander.check()


@case(CLOSE_AFTER_ERROR, needs={"login"})
@over(examples=20, how=st.sampled_from(WRONG))
def test_the_error_of_a_refused_login_is_the_last_frame(target: Bench, how: str) -> None:
    """If CONNECT with a wrong or missing login or passcode is answered with ERROR, the server sends
    nothing more and closes the connection."""
    peer = target.peer("1.2")
    headers = [header for header in target.connect_headers("1.2") if header[0] not in LOGIN]
    peer.send("CONNECT", (*headers, *credentials(target, how).items()))
    seen = fate_of_stranger(target, peer)
    later = [frame.brief() for frame in peer.inbox]
    if seen.explained:
        target.record_finding(
            CLOSE_AFTER_ERROR,
            seen.ended is not None and not later,
            f"login ({how}): {seen}" + (f", and {'; '.join(later)} arrived" if later else ""),
        )


@case(MAY_REFUSE, REFUSED_WITH_ERROR, needs={"login"})
def test_nothing_is_done_for_a_client_that_was_turned_away(target: Bench, version: str) -> None:
    """A client with a wrong passcode sends SEND right after CONNECT. If the client is refused, its
    message is not published."""
    consumer, to = target.stomp(version), target.destination()
    consumer.subscribe(to)
    peer = target.peer(version)
    wrong = credentials(target, "wrong passcode")
    peer.send("CONNECT", target.connect_headers(version, wrong))
    peer.send("SEND", (("destination", to.name), *to.send_headers), b"smuggled")
    admitted = peer.watch_for(CONNECTED) is not None
    seen = fate_of_stranger(target, peer)
    stays = "closes" if seen.ended is not None else "stays-open"
    target.record_behaviour("stomp.wrong-passcode", "admits" if admitted else stays)
    if admitted:
        target.record_finding(
            MAY_REFUSE[version], False, "the client was admitted with a wrong passcode"
        )
        target.record_not_applicable(REFUSED_WITH_ERROR[version], "no client was refused")
        return
    target.stomp(version).publish(to, b"after")
    consumer.message(body=b"after")
    smuggled = [message.brief() for message in consumer.take_messages()]
    words = f"after a wrong passcode, {seen}"
    detail = f"{words}; of its messages, {'; '.join(smuggled) or 'none'} arrived"
    target.record_finding(MAY_REFUSE[version], seen.refused and not smuggled, detail)
    target.record_finding(
        REFUSED_WITH_ERROR[version], seen.explained and seen.ended is not None, words
    )


@case(BLANKS_ARE_KEPT, needs={"login"})
def test_a_blank_before_the_passcode_is_part_of_it(target: Bench, version: str) -> None:
    """CONNECT has the correct passcode with a leading blank. A server that refuses wrong passcodes
    refuses this one too. The correct passcode is admitted first."""
    target.stomp(version)
    judged = {}
    for before in ("wrong", " "):
        peer = target.peer(version)
        passcode = f"{before}{target.target.identity.passcode}"
        peer.send("CONNECT", target.connect_headers(version, {"passcode": passcode}))
        judged[before] = peer.watch_for(CONNECTED) is not None
    if judged["wrong"]:
        return  # this server admits everybody: nothing can be judged
    counts = "is-dropped" if judged[" "] else "counts"
    target.record_behaviour("stomp.blank-before-passcode", counts)
    detail = f"a passcode with a leading blank was {'accepted' if judged[' '] else 'refused'}"
    target.record_finding(BLANKS_ARE_KEPT[version], not judged[" "], detail)
