"""TLS as a client of the harness has it: the authorities it trusts, the certificate it shows, and
OpenSSL on memory below a link.

In virtual time there is no TLS. There a certificate is stated: the broker is told its subject,
which is all that a broker learns from TLS anyway.
"""

from __future__ import annotations

import contextlib
import hashlib
import ssl
from dataclasses import dataclass
from pathlib import Path

ORGANIZATION, UNIT = "brokerproof", "throw-away"
"""O and OU of all certificates that are made for a run."""
_READ = 256 * 1024


@dataclass(frozen=True, slots=True)
class Certificate:
    """A certificate that a client can show: its file, where there is one, and its owner's name."""

    file: str
    common_name: str

    @property
    def subject(self) -> str:
        """The owner as brokers write it."""
        return f"CN={self.common_name}, OU={UNIT}, O={ORGANIZATION}"


CERTIFIED = Certificate("client.pem", "brokerproof-client")
"""Belongs to a user of the broker."""
NOBODY = Certificate("nobody.pem", "nobody")
"""Of an authority that the broker trusts, but it has no such user."""
STRANGER = Certificate("stranger.pem", "stranger")
"""Of an authority that the broker does not trust."""


class TlsFailed(Exception):
    """There is no TLS with this broker: one sentence."""


@dataclass(frozen=True, slots=True)
class Tls:
    """TLS settings of an endpoint.

    ``authority`` is a file with the certificates that are trusted, None for those that this
    machine trusts. Without ``verify`` any is. ``certificates`` is the folder with the files
    of :class:`Certificate`; ``own`` the file with the certificate and key that we show where a case
    asks for nothing else.
    """

    authority: Path | None = None
    verify: bool = True
    certificates: Path | None = None
    own: Path | None = None

    def shown(self, certificate: Certificate | None) -> Path | None:
        """The file of what we show. Raises :class:`TlsFailed` for a certificate that we do not
        have."""
        if certificate is None:
            return self.own
        if self.certificates is None:
            raise TlsFailed(f"there is no certificate {certificate.subject!r} for this target")
        return self.certificates / certificate.file

    def context(self, certificate: Certificate | None = None) -> ssl.SSLContext:
        """Raise :class:`TlsFailed` for files that cannot be used."""
        made = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        shown = self.shown(certificate)
        try:
            if not self.verify:
                made.check_hostname = False
                made.verify_mode = ssl.CERT_NONE
            elif self.authority is None:
                made.load_default_certs()
            else:
                made.load_verify_locations(self.authority)
            if shown is not None:
                made.load_cert_chain(shown, password="")
        except OSError as problem:
            file = (
                shown
                if self.authority is None or not self.verify
                else f"{self.authority} or {shown}"
            )
            if shown is not None and shown.is_file() and b"ENCRYPTED" in shown.read_bytes():
                raise TlsFailed(
                    f"{shown}: the key is encrypted; give one without a passphrase, readable by you"
                ) from None
            raise TlsFailed(
                f"{file or self.authority}: cannot load PEM certificates ({problem})"
            ) from None
        return made

    def words(self) -> str:
        """For people: how it is made sure that the broker is the broker."""
        if not self.verify:
            return "TLS, the broker's certificate NOT verified"
        return (
            "TLS, verified by"
            f" {self.authority.name if self.authority else 'the authorities of this machine'}"
        )


class TlsLayer:
    """One connection's TLS, on the client's side. What is to go to the broker is in
    :meth:`outgoing` after every call."""

    def __init__(self, context: ssl.SSLContext, host: str) -> None:
        self.established = False
        self.ended = False
        """The broker has said that it sends no more."""
        self.failed = ""
        """Why there is no TLS with this broker, or no longer."""
        self._in, self._out = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._in, self._out, server_hostname=host)
        self._early: list[bytes] = []
        self.receive(b"")

    def receive(self, data: bytes) -> bytes:
        """Decipher the broker's ``data``; the result may be nothing."""
        self._in.write(data)
        clear: list[bytes] = []
        try:
            if not self.established:
                self._tls.do_handshake()
                self.established = True
                for early in self._early:
                    self.write(early)
            while data := self._tls.read(_READ):
                clear.append(data)
            self.ended = True
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLZeroReturnError:  # said together with our own end
            self.ended = True
        except ssl.SSLCertVerificationError as problem:
            self.failed = f"the broker's certificate is not trusted: {problem.verify_message}"
        except ssl.SSLError as problem:
            self.failed = f"TLS was refused: {problem.reason or problem}"
        return b"".join(clear)

    def write(self, data: bytes) -> None:
        """``data`` goes to the broker, enciphered, as soon as the handshake is done."""
        if not self.established:
            self._early.append(data)
            return
        rest = memoryview(data)
        with contextlib.suppress(
            ssl.SSLError
        ):  # there is no TLS any more; reading has said so or will
            while rest:
                rest = rest[self._tls.write(rest) :]

    def close(self) -> None:
        """Send the closing alert: nothing more goes to the broker."""
        if self.established:
            with contextlib.suppress(ssl.SSLError):  # the broker has not said so yet, and need not
                self._tls.unwrap()

    def outgoing(self) -> bytes:
        """Take the bytes for the broker's socket."""
        return self._out.read()

    def brief(self) -> str:
        """The protocol and cipher agreed on, for people."""
        if not self.established:
            return f"no TLS: {self.failed or 'the handshake is not done'}"
        cipher = self._tls.cipher()
        der = self._tls.getpeercert(binary_form=True) or b""
        return (
            f"{self._tls.version()} {cipher[0] if cipher else ''}, certificate"
            f" {hashlib.sha256(der).hexdigest()[:12]}"
        )
