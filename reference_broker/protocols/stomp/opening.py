"""Version negotiation and login at the start of a connection."""

from brokerproof.reference_broker.kernel.context import BrokerContext
from brokerproof.reference_broker.kernel.passwords import admitted
from brokerproof.reference_broker.protocols.stomp import grammar, refusal
from brokerproof.reference_broker.protocols.stomp.frame import SUPPORTED, Version
from brokerproof.reference_broker.protocols.stomp.refusal import Refusal, shown


def choose_version(accepted: str | None) -> Version:
    """Return the highest version that both sides support (STOMP11-NEGO-04, STOMP12-NEGO-04).
    Without the header, the version is 1.0. Raises :class:`Refusal`."""
    if accepted is None:
        return Version.V1_0
    offered = accepted.split(",")
    for version in reversed(Version):
        if version.wire in offered and version in grammar.GRAMMARS:
            return version
    detail = f"the client accepts {shown(accepted)}, and this broker speaks {SUPPORTED}"
    raise Refusal(
        refusal.NO_COMMON_VERSION, Version.V1_2, detail, headers=(("version", SUPPORTED),)
    )


def check_login(
    shared: BrokerContext, conn: int, version: Version, login: str | None, passcode: str | None
) -> None:
    """Raise :class:`Refusal` unless the client may open a session."""
    settings = shared.settings
    if not settings.security_enabled:
        return
    if login is None and passcode is None and shared.certified(conn) is not None:
        return
    same = admitted(settings.users, login or "", (passcode or "").encode())
    if login is None or passcode is None or not same:
        detail = "this broker requires a login and passcode; they are missing or wrong"
        raise Refusal(refusal.BAD_LOGIN, version, detail)
