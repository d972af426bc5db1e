"""The TLS parameters of an acceptor's URL, as Artemis names them.

``sslEnabled=true`` turns TLS on; without it, the other parameters have no effect, which is noted.
The key and the certificate are PEM, which Artemis also reads; the default of Artemis, JKS, is a
Java format.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from brokerproof.reference_broker.config.artemis.ignored_settings import TLS as IGNORED
from brokerproof.reference_broker.config.notes_on_settings import Note, settle
from brokerproof.reference_broker.config.values import Where, boolean, words
from brokerproof.reference_broker.settings.acceptor import Tls

VERSIONS = ("TLSv1.2", "TLSv1.3")
"""Values permitted for ``enabledProtocols``."""

_CONVERT = (
    "convert it by `openssl pkcs12 -nodes -in STORE.p12 -out STORE.pem` (a JKS first by keytool"
    " -importkeystore)"
)


def _versions(text: str, where: Where) -> tuple[str, ...]:
    names = tuple(part.strip() for part in text.split(","))
    for name in names:
        if name not in VERSIONS:
            raise where.bad(
                f"{name!r} is not a TLS version supported here",
                f"write one or more of {','.join(VERSIONS)}",
            )
    return names


USED: dict[str, Callable[[str, Where], Any]] = {
    "sslEnabled": boolean,
    "keyStorePath": words,
    "keyStoreType": words,
    "keyStorePassword": words,
    "keyPassword": words,
    "trustStorePath": words,
    "trustStoreType": words,
    "needClientAuth": boolean,
    "wantClientAuth": boolean,
    "enabledProtocols": _versions,
}

NAMES = frozenset({*USED, *IGNORED})


def read(given: Mapping[str, str], where: Where) -> tuple[Tls | None, list[Note]]:
    """Return the TLS settings in ``given`` and notes on any that have no effect. Paths are relative
    to the configuration file.

    Raises ``BadSetting`` for a malformed or unsupported value, a missing ``keyStorePath``, a store
    that is not PEM, and client certificates without a ``trustStorePath`` to check them against.
    """
    places = {name: where.named(f"{where.name}, {name}") for name in NAMES}
    values = {
        name: parse(given[name], places[name]) for name, parse in USED.items() if name in given
    }
    if not values.get("sslEnabled"):
        about_tls = (name for name in given if name in NAMES and name != "sslEnabled")
        return None, [Note(places[name], "only with sslEnabled=true") for name in about_tls]
    notes: list[Note] = []
    for name, entry in IGNORED.items():
        if name in given:
            notes += settle(given[name], places[name], entry)
    if "keyStorePath" not in values:
        raise places["sslEnabled"].bad(
            "TLS needs a certificate", "write keyStorePath=FILE and keyStoreType=PEM"
        )
    kind = _store_type(values, "keyStoreType", ("PEM", "PEMCFG"), places)
    need, want = values.get("needClientAuth", False), values.get("wantClientAuth", False)
    if "trustStorePath" in values:
        _store_type(values, "trustStoreType", ("PEMCA", "PEM"), places)
    elif need or want:
        option = "needClientAuth" if need else "wantClientAuth"
        raise places[option].bad(
            "no trusted certificates are configured",
            "write trustStorePath=FILE and trustStoreType=PEMCA",
        )
    if need and want:
        notes.append(Note(places["wantClientAuth"], "needClientAuth wins"))
    beside = where.file.parent
    trusted = values.get("trustStorePath")
    return (
        Tls(
            key_store=beside / Path(values["keyStorePath"]),
            key_store_type=kind,
            key_password=values.get("keyPassword", values.get("keyStorePassword")),
            trust_store=None if trusted is None else beside / Path(trusted),
            client_certificate="need" if need else "want" if want else "none",
            versions=values.get("enabledProtocols", VERSIONS),
        ),
        notes,
    )


def _store_type(
    values: Mapping[str, Any], name: str, allowed: tuple[str, ...], places: Mapping[str, Where]
) -> str:
    """Return a store's type; if it is not allowed, the error recommends the first of ``allowed``.
    Artemis assumes JKS if no type is given."""
    kind = str(values.get(name, "JKS"))
    if kind not in allowed:
        given = kind if name in values else f"{kind}, the default,"
        raise places[name].bad(
            f"{given} cannot be read here", f"{_CONVERT} and write {name}={allowed[0]}"
        )
    return kind
