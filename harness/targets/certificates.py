"""Throw-away certificates for a broker that we start: an authority, the broker's certificate, and
those of clients.

They are made anew at each start and name nothing but this machine. The authorities' own keys are
never written down.
"""

from __future__ import annotations

import datetime
import ipaddress
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from brokerproof.harness.worlds.tls import CERTIFIED, NOBODY, STRANGER, Certificate

FOLDER = "BROKERPROOF_CERTIFICATES"
"""The folder's name in a configuration file: ``${BROKERPROOF_CERTIFICATES}``."""
AUTHORITY, SERVER = "ca.pem", "server.pem"

_ORGANIZATION = "brokerproof"
_LIFE = datetime.timedelta(days=30)
_USAGES = ("digital_signature", "key_cert_sign", "crl_sign")
_NO_USAGE = dict.fromkeys(
    (
        *(
            "digital_signature",
            "content_commitment",
            "key_encipherment",
            "data_encipherment",
            "key_agreement",
        ),
        *("key_cert_sign", "crl_sign", "encipher_only", "decipher_only"),
    ),
    False,
)


class _Authority:
    """Issues certificates; its own key lives as long as this object."""

    def __init__(self, name: str) -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _named(name)
        usage = {**_NO_USAGE, **dict.fromkeys(_USAGES, True)}
        builder = (
            _builder(self._name, self._name, self._key.public_key())
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(x509.KeyUsage(**usage), critical=True)
        )
        self.certificate = builder.sign(self._key, hashes.SHA256())

    def issue(self, name: str, *, server: bool) -> bytes:
        """The key and the certificate of ``name``, in PEM, as one file has them."""
        key = ec.generate_private_key(ec.SECP256R1())
        purpose = ExtendedKeyUsageOID.SERVER_AUTH if server else ExtendedKeyUsageOID.CLIENT_AUTH
        builder = (
            _builder(_named(name), self._name, key.public_key())
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(x509.KeyUsage(**{**_NO_USAGE, "digital_signature": True}), critical=True)
            .add_extension(x509.ExtendedKeyUsage([purpose]), critical=False)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()),
                critical=False,
            )
        )
        if server:
            builder = builder.add_extension(
                x509.SubjectAlternativeName(_ourselves()), critical=False
            )
        private = key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
        return private + _pem(builder.sign(self._key, hashes.SHA256()))


def make(folder: Path) -> None:
    """Write ``ca.pem``, ``server.pem`` and a file for each certificate of
    :mod:`brokerproof.harness.worlds.tls` into ``folder``."""
    folder.mkdir(parents=True, exist_ok=True)
    authority, other = (
        _Authority("brokerproof throw-away authority"),
        _Authority("another authority"),
    )
    (folder / AUTHORITY).write_bytes(_pem(authority.certificate))
    _write(folder / SERVER, authority.issue("localhost", server=True))
    for certificate, issuer in ((CERTIFIED, authority), (NOBODY, authority), (STRANGER, other)):
        _write(folder / certificate.file, issuer.issue(_common_name(certificate), server=False))


def _write(path: Path, octets: bytes) -> None:
    path.touch(mode=0o600)
    path.write_bytes(octets)


def _common_name(certificate: Certificate) -> str:
    return certificate.subject.removeprefix("CN=").removesuffix(f", O={_ORGANIZATION}")


def _named(name: str) -> x509.Name:
    return x509.Name(
        [
            x509.NameAttribute(NameOID.ORGANIZATION_NAME, _ORGANIZATION),
            x509.NameAttribute(NameOID.COMMON_NAME, name),
        ]
    )


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey
) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))  # clocks differ
        .not_valid_after(now + _LIFE)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
    )


def _ourselves() -> list[x509.GeneralName]:
    addresses = (ipaddress.ip_address(address) for address in ("127.0.0.1", "::1"))
    # Proton looks for an address among the names.
    return [x509.DNSName("localhost"), x509.DNSName("127.0.0.1"), *map(x509.IPAddress, addresses)]


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)
