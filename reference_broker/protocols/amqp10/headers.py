"""Protocol headers (2.2): the eight bytes that choose a protocol, and the answers to them.

A header is ``AMQP``, a protocol id (0 AMQP, 2 TLS, 3 SASL), and the version 1 0 0. This side waits
for the peer's header (AMQP10-VER-06) and repeats it if it supports that protocol (AMQP10-VER-07).
Otherwise it answers with a supported header and closes (AMQP10-VER-08, -11, -12): with the SASL
header where a login is required, otherwise with the plain AMQP header. Only one version exists, so
there is no choice between versions (AMQP10-VER-09, -10). Bytes that can no longer become a header
are answered immediately, because the peer may be waiting for us and never send eight bytes.
"""

AMQP = b"AMQP\x00\x01\x00\x00"
SASL = b"AMQP\x03\x01\x00\x00"
TLS = b"AMQP\x02\x01\x00\x00"

SIZE = 8


def requirement_of(received: bytes) -> str:
    if not received.startswith(b"AMQP"):
        return "AMQP10-VER-11"
    return "AMQP10-VER-12" if received in (AMQP, SASL, TLS) else "AMQP10-VER-08"


def can_become(received: bytes, header: bytes) -> bool:
    """Return True if ``received``, at most eight bytes, is the beginning of ``header``."""
    return header.startswith(received)


def described(received: bytes) -> str:
    if received.startswith(b"AMQP") and len(received) == SIZE:
        return f"protocol {received[4]}, version {received[5]}.{received[6]}.{received[7]}"
    return f"bytes {received.hex(' ')}"
