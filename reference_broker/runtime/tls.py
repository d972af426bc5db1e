"""TLS between a socket and a connection, with OpenSSL on memory buffers, so that only the adapter
sends and waits.

The broker learns of a TLS connection once the handshake is done, with the subject of the client's
certificate, if any. asyncio's own TLS transport is not used: it has no half-close, and cannot begin
after bytes already read, which AMQP requires. AMQP over TLS can begin in two ways, both available
on any acceptor with TLS and AMQP:

* TLS from the first byte (AMQP10-TLS-02).
* A plain TLS protocol header, which is echoed; TLS begins after it (AMQP10-TLS-01). Any other
  header is answered with the TLS header, and the connection is closed (AMQP10-VER-12).

We end a connection with close_notify and then TCP. Either of these from the peer ends the
connection: after a mere close_notify, the peer reads nothing more, as after a half-close of a plain
connection. A TCP end without close_notify is accepted too: STOMP and AMQP frames mark their own
ends, so a truncated frame is never taken as complete."""

import contextlib
import os
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from brokerproof.harness.model import input_file
from brokerproof.harness.model.input_file import BadInput, OneSentence
from brokerproof.reference_broker.protocols.amqp10 import headers
from brokerproof.reference_broker.settings.acceptor import Acceptor, Tls

_AMQP = headers.TLS[:4]
_READ = 256 * 1024
_VERIFY = {"none": ssl.CERT_NONE, "want": ssl.CERT_OPTIONAL, "need": ssl.CERT_REQUIRED}
_VERSIONS = {"TLSv1.2": ssl.OP_NO_TLSv1_2, "TLSv1.3": ssl.OP_NO_TLSv1_3}

_SHORT = {
    "commonName": "CN",
    "countryName": "C",
    "localityName": "L",
    "stateOrProvinceName": "ST",
    "streetAddress": "STREET",
    "organizationName": "O",
    "organizationalUnitName": "OU",
    "title": "T",
    "surname": "SURNAME",
    "givenName": "GIVENNAME",
    "emailAddress": "EMAILADDRESS",
    "serialNumber": "SERIALNUMBER",
    "userId": "UID",
    "domainComponent": "DC",
}
MOST_BYTES = 1 << 20
"""The largest size of a file with keys or certificates."""
_SPECIAL = frozenset(',+=\n<>#;\\"')


class BadTls(OneSentence):
    """The files of an acceptor are unusable. The message gives the file and what is expected."""


def context(tls: Tls) -> ssl.SSLContext:
    """Return the context that all connections of an acceptor share. Raises :class:`BadTls`."""
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    made.minimum_version = ssl.TLSVersion.TLSv1_2
    for name, off in _VERSIONS.items():
        if name not in tls.versions:
            made.options |= off
    # A client that leaves at once would not read the tickets, so its host would answer with a
    # reset.
    made.num_tickets = 0
    certificates, key = (
        (tls.key_store, None) if tls.key_store_type == "PEM" else _sources(tls.key_store)
    )
    for path in (certificates, key, tls.trust_store):
        _check_regular(path)
    try:
        # Without a password OpenSSL would prompt on the terminal.
        made.load_cert_chain(certificates, key, password=tls.key_password or "")
    except FileNotFoundError:
        missing = next(
            (file for file in (certificates, key) if file is not None and not file.is_file()),
            certificates,
        )
        raise BadTls(
            f"{missing} does not exist; keyStorePath should name a certificate and its key in PEM"
        ) from None
    except (OSError, ValueError) as problem:
        reason = (problem.reason or "") if isinstance(problem, ssl.SSLError) else str(problem)
        raise BadTls(
            f"{certificates} cannot be used ({reason or 'no PEM'}); it should hold, in PEM, a"
            " certificate and its key, whose password is keyStorePassword if it has one"
        ) from None
    if tls.trust_store is not None:
        try:
            made.load_verify_locations(tls.trust_store)
        except OSError as problem:
            reason = "no certificate in it" if isinstance(problem, ssl.SSLError) else str(problem)
            raise BadTls(
                f"{tls.trust_store} cannot be used ({reason}); it should hold certificates in PEM"
            ) from None
    made.verify_mode = _VERIFY[tls.client_certificate]
    return made


def _check_regular(path: Path | None) -> None:
    """Raise :class:`BadTls` for a folder or a pipe, because OpenSSL would wait for a writer."""
    if path is None or not path.exists():
        return
    try:
        os.close(input_file.open_regular(path))
    except BadInput as problem:
        raise BadTls(f"{path} {problem}") from None


def _sources(path: Path) -> tuple[Path, Path]:
    """Return the certificate and key files in ``source.ANYTHING`` properties of a PEMCFG file."""
    try:
        lines = input_file.read_text(path, MOST_BYTES).splitlines()
    except BadInput as problem:
        raise BadTls(
            f"{path}: {problem}; keyStorePath should name a file of properties source.… = FILE"
        ) from None
    named = [line.partition("=") for line in lines if line.strip().startswith("source.")]
    files = [path.parent / value.strip() for _, _, value in named]
    sources: dict[str, Path] = {}
    for file in files:
        with contextlib.suppress(BadInput):
            text = input_file.read_bytes(file, MOST_BYTES)
            for what, mark in (
                ("key", b"PRIVATE KEY-----"),
                ("certificates", b"-----BEGIN CERTIFICATE-----"),
            ):
                if mark in text:
                    sources.setdefault(what, file)
    if len(sources) < 2:
        raise BadTls(
            f"{path} names no file with a key, or none with a certificate, as source.… = FILE"
            " in PEM"
        )
    return sources["certificates"], sources["key"]


class TlsLayer:
    """The server's side of one connection's TLS. Pass bytes to :meth:`receive` and :meth:`write`;
    :meth:`outgoing` then returns the bytes for the peer."""

    def __init__(self, shared: ssl.SSLContext, acceptor: Acceptor) -> None:
        self.established = False
        """True once the handshake is complete."""
        self.ended = False
        """True once the peer has announced that it will send no more."""
        self.failed = False
        """True if there is and will be no TLS; :meth:`outgoing` then has the reason."""
        self._in, self._out = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = shared.wrap_bio(self._in, self._out, server_side=True)
        self._first: bytes | None = b"" if "AMQP" in acceptor.protocols else None

    def receive(self, data: bytes) -> bytes:
        """Return the plaintext of ``data`` and earlier bytes, which may be empty."""
        if self._first is not None:
            data = self._open(data)
        if not data or self.failed or self.ended:
            return b""
        self._in.write(data)
        try:
            if not self.established:
                self._tls.do_handshake()
                self.established = True
            return b"".join(self._read())
        except ssl.SSLWantReadError:
            return b""
        except ssl.SSLError:
            self.failed = True
            return b""

    def _open(self, data: bytes) -> bytes:
        """Return the part of the first bytes that belongs to TLS."""
        first = (self._first or b"") + data
        header = headers.TLS
        if len(first) < len(header) and header.startswith(first):
            self._first = first
            return b""
        self._first = None
        if not first.startswith(_AMQP):
            return first
        self._out.write(header)
        self.failed = not first.startswith(header)
        return first[len(header) :]

    def _read(self) -> Iterator[bytes]:
        try:
            while clear := self._tls.read(_READ):
                yield clear
            self.ended = True
        except ssl.SSLWantReadError:
            return
        except ssl.SSLZeroReturnError:  # answered with our own close
            self.ended = True
        except ssl.SSLError:  # valid data before the error still counts
            self.failed = True

    def write(self, data: bytes) -> None:
        """Encrypt ``data`` for the peer."""
        rest = memoryview(data)
        while rest:
            rest = rest[self._tls.write(rest) :]

    def close(self) -> None:
        """End output to the peer."""
        if self.established and not self.failed:
            with contextlib.suppress(ssl.SSLError):  # the peer has not closed yet, and need not
                self._tls.unwrap()

    def outgoing(self) -> bytes:
        """Remove and return the bytes to write to the peer's socket."""
        return self._out.read()

    def certificate(self) -> str | None:
        """Return the subject of the client's certificate in Java's format, ``CN=ann, O=Example``;
        None without a certificate."""
        shown: Any = self._tls.getpeercert()
        if not shown:
            return None
        parts = [
            " + ".join(f"{_SHORT.get(kind, kind)}={_quoted(value)}" for kind, value in attributes)
            for attributes in shown["subject"]
        ]
        return ", ".join(reversed(parts))


def _quoted(value: str) -> str:
    if value and not _SPECIAL & set(value) and value == value.strip() and "  " not in value:
        return value
    inside = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{inside}"'
