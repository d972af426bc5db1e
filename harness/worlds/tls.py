"""TLS on the client's side: trusted authorities, the client certificate, and OpenSSL on memory
buffers.

Virtual time has no TLS. The broker is given the certificate's subject, which is all that TLS would
tell it."""

import contextlib
import hashlib
import ssl
from dataclasses import dataclass
from pathlib import Path

ORGANIZATION, UNIT = "brokerproof", "throw-away"
"""The O and OU of all certificates that are made for a run."""
_READ = 256 * 1024


@dataclass(frozen=True, slots=True)
class Certificate:
    """A client certificate: its file, if any, and the owner's name."""

    file: str
    common_name: str

    @property
    def subject(self) -> str:
        """The owner's name in the form that brokers use."""
        return f"CN={self.common_name}, OU={UNIT}, O={ORGANIZATION}"


CERTIFIED = Certificate("client.pem", "brokerproof-client")
"""A certificate that belongs to a user of the broker."""
NOBODY = Certificate("nobody.pem", "nobody")
"""A certificate from an authority that the broker trusts, but for an unknown user."""
STRANGER = Certificate("stranger.pem", "stranger")
"""A certificate from an authority that the broker does not trust."""


class TlsFailed(Exception):
    """TLS with this broker failed. The message is one sentence."""


@dataclass(frozen=True, slots=True)
class Tls:
    """TLS settings of an endpoint.

    ``authority`` is a file with the trusted certificates (None: this machine's). Without
    ``verify``, every certificate is trusted. ``certificates`` is the folder with the files of
    :class:`Certificate`; ``own`` is the file with our default certificate and key."""

    authority: Path | None = None
    verify: bool = True
    certificates: Path | None = None
    own: Path | None = None

    def shown(self, certificate: Certificate | None) -> Path | None:
        """Return the file of our certificate. Raises :class:`TlsFailed` if we have none."""
        if certificate is None:
            return self.own
        if self.certificates is None:
            raise TlsFailed(f"there is no certificate {certificate.subject!r} for this target")
        return self.certificates / certificate.file

    def context(self, certificate: Certificate | None = None) -> ssl.SSLContext:
        """Return the TLS context. Raises :class:`TlsFailed` for unusable files."""
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
                    f"{shown}: the key is encrypted; use one without a passphrase that you can read"
                ) from None
            raise TlsFailed(
                f"{file or self.authority}: cannot load PEM certificates ({problem})"
            ) from None
        return made

    def words(self) -> str:
        """Describe, for people, how the broker's identity is verified."""
        if not self.verify:
            return "TLS, the broker's certificate NOT verified"
        return (
            "TLS, verified by"
            f" {self.authority.name if self.authority else 'the authorities of this machine'}"
        )


class TlsLayer:
    """One connection's TLS on the client's side. After every call, :meth:`outgoing` returns the
    bytes for the broker."""

    def __init__(self, context: ssl.SSLContext, host: str) -> None:
        self.established = False
        self.ended = False
        """True once the broker has announced that it will send nothing more."""
        self.failed = ""
        """Why TLS with this broker failed or ended."""
        self._in, self._out = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._in, self._out, server_hostname=host)
        self._early: list[bytes] = []
        self.receive(b"")

    def receive(self, data: bytes) -> bytes:
        """Decrypt ``data`` from the broker; the result may be empty."""
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
        except ssl.SSLZeroReturnError:  # answered with our own close
            self.ended = True
        except ssl.SSLCertVerificationError as problem:
            self.failed = f"the broker's certificate is not trusted: {problem.verify_message}"
        except ssl.SSLError as problem:
            self.failed = f"TLS was refused: {problem.reason or problem}"
        return b"".join(clear)

    def write(self, data: bytes) -> None:
        """Encrypt ``data`` for the broker as soon as the handshake is done."""
        if not self.established:
            self._early.append(data)
            return
        rest = memoryview(data)
        with contextlib.suppress(ssl.SSLError):  # TLS has ended; reading has reported it or will
            while rest:
                rest = rest[self._tls.write(rest) :]

    def close(self) -> None:
        """Send the closing alert; no more data follows."""
        if self.established:
            # the broker has not announced its close, and need not
            with contextlib.suppress(ssl.SSLError):
                self._tls.unwrap()

    def outgoing(self) -> bytes:
        """Return and remove the bytes to write to the broker's socket."""
        return self._out.read()

    def brief(self) -> str:
        """Return the agreed protocol and cipher, for people."""
        if not self.established:
            return f"no TLS: {self.failed or 'the handshake is not done'}"
        cipher = self._tls.cipher()
        der = self._tls.getpeercert(binary_form=True) or b""
        return (
            f"{self._tls.version()} {cipher[0] if cipher else ''}, certificate"
            f" {hashlib.sha256(der).hexdigest()[:12]}"
        )
