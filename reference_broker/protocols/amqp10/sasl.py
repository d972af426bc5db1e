"""The server's side of SASL (5.3): the mechanisms offered, and the peer's identity.

::

    server                                client
    sasl-mechanisms  ------------------>
                     <------------------  sasl-init
    sasl-challenge   ------------------>                  only for PLAIN without an initial response
                     <------------------  sasl-response
    sasl-outcome     ------------------>

* ANONYMOUS (RFC 4505) admits everybody; offered only where no login is required.
* PLAIN (RFC 4616): ``[authorization id] NUL name NUL password``. An authorization id must be empty
  or the name itself: nobody may act for others here. With security off, any name and password are
  accepted.
* EXTERNAL (RFC 4422, appendix A): the transport identifies the peer by its certificate. Offered
  only to peers that presented one; it fails if the certificate belongs to no user.

Every failure, including a mechanism that was not offered, is outcome ``auth`` (1) without a reason;
then the connection is closed. Passwords are compared in constant time, even for unknown names.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from brokerproof.reference_broker.kernel.passwords import admitted

ANONYMOUS, PLAIN, EXTERNAL = "ANONYMOUS", "PLAIN", "EXTERNAL"

OK, AUTH = 0, 1
"""Outcome codes."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The end of a negotiation. ``detail`` is only for the broker's operators."""

    code: int
    user: str
    detail: str


class SaslServer:
    """One negotiation. ``users``: passwords by name; ``external``: the user known to the
    transport."""

    def __init__(
        self,
        offered: tuple[str, ...],
        users: Mapping[str, str],
        security_enabled: bool,
        external: str | None = None,
    ) -> None:
        self.offered = offered
        self._users = users
        self._security = security_enabled
        self._external = external

    def start(self, mechanism: str, initial: bytes | None) -> Outcome | bytes:
        """Handle ``sasl-init``: return the outcome or a challenge to send."""
        if mechanism not in self.offered:
            return Outcome(AUTH, "", f"the mechanism {mechanism[:40]!a} was not offered")
        if mechanism == ANONYMOUS:
            return Outcome(OK, "anonymous", "anonymous")
        if mechanism == EXTERNAL:
            if self._external is None:
                return Outcome(AUTH, "", "EXTERNAL: the transport has not identified the peer")
            asked = (initial or b"").decode("utf-8", "replace")
            if asked not in ("", self._external):
                return Outcome(
                    AUTH, "", "EXTERNAL: the peer asks for another authorization identity"
                )
            return Outcome(OK, self._external, "known to the transport")
        return b"" if initial is None else self.respond(initial)

    def respond(self, response: bytes) -> Outcome:
        """Return the outcome of the response to the PLAIN challenge."""
        parts = response.split(b"\0")
        if len(parts) != 3:
            return Outcome(AUTH, "", "PLAIN: the response is not three parts, separated by NUL")
        try:
            acting, name, _ = (part.decode() for part in parts)
        except UnicodeDecodeError:
            return Outcome(AUTH, "", "PLAIN: the response is not UTF-8")
        if not name or acting not in ("", name):
            return Outcome(AUTH, "", "PLAIN: no name, or another authorization identity")
        if self._security and not admitted(self._users, name, parts[2]):
            return Outcome(AUTH, "", "PLAIN: the name or password is wrong")
        return Outcome(OK, name, "name and password")
