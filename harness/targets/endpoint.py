"""Endpoints of a broker and their transport: ``HOST:PORT`` or ``SCHEME://HOST:PORT?ca=FILE…``."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

from brokerproof.harness.model import input_file
from brokerproof.harness.worlds.tls import Tls

SCHEMES = {"stomp": False, "stomp+ssl": True, "amqp": False, "amqps": True}
"""By scheme, whether there is TLS."""
_OPTIONS = ("ca", "certificate", "insecure")


class BadEndpoint(ValueError):
    """An unusable endpoint: what is wrong, and what would be right."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """``tls`` is None where bytes go in the clear; ``options`` are those of the URL that are not
    about TLS."""

    scheme: str
    host: str
    port: int
    tls: Tls | None
    login: str | None
    passcode: str | None
    options: dict[str, str]


def read(text: str, folder: Path, *, options: tuple[str, ...] = ()) -> Endpoint:
    """The endpoint that ``text`` names; relative paths begin in ``folder``. Raises
    :class:`BadEndpoint`.

    With TLS there are the options ``ca`` (a file with the authorities that are believed; default:
    those of this machine), ``certificate`` (a file with the certificate and key that we show), and
    ``insecure=true``, by which anybody is believed.
    """
    try:
        url = urlsplit(text if "://" in text else f"stomp://{text}")
        host, port = url.hostname, url.port
    except ValueError as problem:
        raise BadEndpoint(f"{problem}; write HOST:PORT") from None
    if url.scheme not in SCHEMES or not host or port is None:
        forms = ", ".join(f"{scheme}://HOST:PORT" for scheme in SCHEMES)
        raise BadEndpoint(f"should look like {forms}, or HOST:PORT")
    given = dict(parse_qsl(url.query, keep_blank_values=True))
    secure = SCHEMES[url.scheme]
    known = (*options, *(_OPTIONS if secure else ()))
    for name in given:
        if name not in known:
            only_tls = " without TLS" if name in _OPTIONS else ""
            there = (
                f"there {'is' if len(known) == 1 else 'are'} {', '.join(known)}"
                if known
                else "there are none"
            )
            raise BadEndpoint(f"unknown option {name!r}{only_tls}; {there}")
    tls = _tls(given, folder) if secure else None
    rest = {name: value for name, value in given.items() if name in options}
    return Endpoint(url.scheme, host, port, tls, url.username, url.password, rest)


def _tls(given: dict[str, str], folder: Path) -> Tls:
    insecure = given.get("insecure", "false")
    if insecure not in ("true", "false"):
        raise BadEndpoint(
            f"insecure is {insecure!r}; write insecure=true to believe any certificate"
        )
    files: dict[str, Path] = {}
    for name in ("ca", "certificate"):
        if name in given:
            files[name] = folder / given[name]
            if not input_file.is_file(files[name]):
                raise BadEndpoint(
                    f"{name} names {given[name]!r}, and there is no such file; name one in PEM"
                )
    if insecure == "true" and "ca" in files:
        raise BadEndpoint(
            "ca says whom to believe, and insecure=true to believe anybody; leave one of them out"
        )
    return Tls(files.get("ca"), verify=insecure == "false", own=files.get("certificate"))
