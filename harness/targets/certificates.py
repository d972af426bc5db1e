"""Throw-away certificates for a broker that we start: an authority, the broker's certificate, and
those of clients.

The certificates are created at each start and name only this machine and, for a broker in a
container, the container's host. The authorities' own keys are never stored.
"""

import datetime
from pathlib import Path

import trustme

from brokerproof.harness.worlds.tls import CERTIFIED, NOBODY, ORGANIZATION, STRANGER, UNIT

FOLDER = "BROKERPROOF_CERTIFICATES"
"""The placeholder for the folder in a configuration file: ``${BROKERPROOF_CERTIFICATES}``."""
AUTHORITY, SERVER = "ca.pem", "server.pem"

_LIFE = datetime.timedelta(days=30)


def make(folder: Path, host: str = "127.0.0.1") -> None:
    """Write ``ca.pem``, ``server.pem`` and a file for each certificate of
    :mod:`brokerproof.harness.worlds.tls` into ``folder``.

    ``host`` is the name or address by which clients reach the broker; the broker's certificate is
    valid for ``host`` and for this machine.
    """
    folder.mkdir(parents=True, exist_ok=True)
    authority = trustme.CA(organization_name=ORGANIZATION, organization_unit_name="authority")
    other = trustme.CA(organization_name=ORGANIZATION, organization_unit_name="another authority")
    authority.cert_pem.write_to_path(folder / AUTHORITY)
    # Proton looks for an address only among the DNS names and in the common name.
    names = dict.fromkeys(("localhost", "127.0.0.1", "::1", host))
    _write(folder / SERVER, _issue(authority, *names, common_name=host))
    for certificate, issuer in ((CERTIFIED, authority), (NOBODY, authority), (STRANGER, other)):
        # Java rejects a certificate with an empty list of alternative names.
        name = certificate.common_name
        _write(folder / certificate.file, _issue(issuer, name, common_name=name))


def _issue(authority: trustme.CA, *names: str, common_name: str) -> bytes:
    now = datetime.datetime.now(datetime.UTC)
    leaf = authority.issue_cert(
        *names,
        common_name=common_name,
        organization_name=ORGANIZATION,
        organization_unit_name=UNIT,
        not_before=now - datetime.timedelta(days=1),  # clocks differ
        not_after=now + _LIFE,
    )
    return leaf.private_key_and_cert_chain_pem.bytes()


def _write(path: Path, data: bytes) -> None:
    path.touch(mode=0o600)
    path.write_bytes(data)
