"""The version of a session: the highest common one, or 1.0 if the client names none."""

from collections.abc import Iterator

from hypothesis import strategies as st

from brokerproof.suites.api import Bench, Target, case, over
from brokerproof.suites.api.stomp import CONNECTED, StompPeer, frame
from brokerproof.suites.stomp.error_recovery_steps import fate_of_stranger

HIGHEST_COMMON = ("STOMP11-NEGO-04", "STOMP12-NEGO-04")
DIALECTS = {"1.0": "STOMP10-RECEIPT-02", "1.1": "STOMP11-ENC-08", "1.2": "STOMP12-ENC-09"}
DIALECT_1_0 = DIALECTS["1.0"]
DEFAULT = ("STOMP11-NEGO-03", "STOMP12-NEGO-03")
LISTS_VERSIONS = {"1.1": "STOMP11-NEGO-05", "1.2": "STOMP12-NEGO-05"}
MAY_REFUSE = {"1.1": "STOMP11-CONNECT-02", "1.2": "STOMP12-CONNECT-02"}
REFUSED_WITH_ERROR = {"1.1": "STOMP11-CONNECT-03", "1.2": "STOMP12-CONNECT-03"}

KNOWN = ("1.0", "1.1", "1.2")
STRANGE = ("0.9", "1.3", "1.20", "1.10", "2.0", "2.1", "10.0", "1", "12", "1.2.1", "x")


def opened(target: Bench, accept: str | None, version: str = "1.2") -> StompPeer:
    """Return a connection that sent CONNECT with this accept-version header (None: without one)."""
    peer = target.peer(version)
    headers = [header for header in target.connect_headers("1.2") if header[0] != "accept-version"]
    if accept is not None:
        headers.insert(0, ("accept-version", accept))
    peer.send("CONNECT", headers)
    return peer


def spoken(target: Bench) -> list[str]:
    """Return the versions that this server supports, in ascending order; request each
    separately."""
    received = []
    for version in KNOWN:
        connected = opened(target, version, version).watch_for(CONNECTED)
        if connected is not None and connected.get("version", "1.0") == version:
            received.append(version)
    target.control(bool(received), "no version of STOMP is accepted")
    return received


@st.composite
def offers(draw: st.DrawFn) -> list[str]:
    """Draw a value of accept-version: known and unknown versions, in ascending or any order."""
    listed = draw(st.lists(st.sampled_from(KNOWN), min_size=1, max_size=4))
    listed += draw(st.lists(st.sampled_from(STRANGE), max_size=3))
    return sorted(listed) if draw(st.booleans()) else list(draw(st.permutations(listed)))


def turned_round(target: Target) -> Iterator[dict[str, list[str]]]:
    """Return lists with the highest version first, last and in between."""
    for offered in (["1.2", "1.1", "1.0"], ["1.0", "1.2", "1.1"], ["1.1", "1.0"], ["1.0"]):
        yield {"offered": offered}


@case(*HIGHEST_COMMON, *DIALECTS.values())
@over(examples=20, always=turned_round, offered=offers())
def test_the_highest_common_version_is_used(target: Bench, offered: list[str]) -> None:
    """CONNECT lists known and unknown versions in any order. CONNECTED names the highest common
    version, and the session escapes headers as that version does. One scenario: the escaping shows
    the session's real version."""
    have = spoken(target)
    for version in DIALECTS.keys() - set(have):
        target.record_not_applicable(DIALECTS[version], f"the server does not have {version}")
    common = [version for version in have if version in offered]
    target.control(
        bool(common) or have != list(KNOWN), "a server with every version should have one in common"
    )
    if not common:
        return
    highest = common[-1]
    peer = opened(target, ",".join(offered), highest)
    connected = peer.expect(CONNECTED, proves=HIGHEST_COMMON)
    value = connected.get("version", "1.0")
    detail = f"accept-version:{','.join(offered)} was answered with version:{value}"
    target.record_finding(HIGHEST_COMMON, value == highest, detail)
    if value == highest:
        judge_dialect(peer, highest)


def judge_dialect(peer: StompPeer, version: str) -> None:
    """Judge whether the session answers a receipt whose value each version writes differently."""
    text = {"1.0": "a\\cb:c\\n", "1.1": "a:b\\\nc", "1.2": "a:b\\\nc\rd"}[version]
    peer.request("BEGIN", {"transaction": peer.transaction})
    peer.send("COMMIT", {"transaction": peer.transaction, "receipt": text})
    peer.expect(frame("RECEIPT", {"receipt-id": text}), proves=DIALECTS[version])


@case(*DEFAULT, DIALECT_1_0, needs={"stomp-1.0"})
def test_without_accept_version_the_session_is_1_0(target: Bench) -> None:
    """CONNECT without accept-version opens the same session as accept-version:1.0: CONNECTED names
    no other version, and a receipt with colons and backslashes is echoed unchanged."""
    text, echoed = "a\\cb:c\\n", []
    for accept in (None, "1.0"):
        peer = opened(target, accept, "1.0")
        # Only the session without the header is judged; the other one serves for comparison.
        connected = peer.expect(CONNECTED, proves=DEFAULT if accept is None else None)
        value = connected.get("version", "1.0")
        if accept is None:
            words = f"without accept-version, version {value} was chosen"
            target.record_finding(DEFAULT, value == "1.0", words)
        peer.send("BEGIN", {"transaction": peer.transaction, "receipt": text})
        receipt = peer.watch_for(frame("RECEIPT"))
        echoed.append(
            peer.instead() if receipt is None else f"receipt-id:{receipt.get('receipt-id')}"
        )
    default, explicit = echoed
    detail = f"got {default}; with accept-version:1.0, got {explicit}"
    target.record_finding(DEFAULT, default == explicit, detail)
    detail = f"expected RECEIPT receipt-id:{text}, but got {default}"
    target.record_finding(DIALECT_1_0, default == f"receipt-id:{text}", detail)


@case(LISTS_VERSIONS, MAY_REFUSE, REFUSED_WITH_ERROR)
@over(examples=20, offered=st.lists(st.sampled_from(STRANGE), min_size=1, max_size=4))
def test_without_a_common_version_there_is_no_session(
    target: Bench, version: str, offered: list[str]
) -> None:
    """CONNECT with only unknown versions is answered with an ERROR that lists the server's
    versions, and the connection closes."""
    have = spoken(target)
    peer = opened(target, ",".join(offered), version)
    connected = peer.watch_for(CONNECTED)
    asked = f"accept-version:{','.join(offered)}"
    detail = f"CONNECT with {asked}: {connected.brief() if connected else peer.instead()}"
    target.require((LISTS_VERSIONS[version], MAY_REFUSE[version]), connected is None, detail)
    seen = fate_of_stranger(target, peer)
    target.record_finding(MAY_REFUSE[version], seen.refused, f"CONNECT with {asked}: {seen}")
    target.record_finding(
        REFUSED_WITH_ERROR[version],
        seen.explained and seen.ended is not None,
        f"CONNECT with {asked}: {seen}",
    )
    if version == "1.2":
        target.record_finding(
            LISTS_VERSIONS[version],
            seen.explained and seen.ended is not None,
            f"CONNECT with {asked}: {seen}",
        )
    else:
        value = (
            ""
            if seen.error is None
            else f"{seen.error.get('version', '')} {seen.error.body.decode(errors='replace')}"
        )
        missing = [version for version in have if version not in value]
        target.record_finding(
            LISTS_VERSIONS[version],
            seen.error is not None and not missing,
            f"CONNECT with {asked}: {seen}; the server has {', '.join(have)}",
        )
    target.stomp(version)
