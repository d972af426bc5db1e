"""Endpoints of a broker, with protocol and transport: ``HOST:PORT`` or
``SCHEME://HOST:PORT?ca=FILE…``."""

from dataclasses import dataclass
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

from brokerproof.harness.model import input_file
from brokerproof.harness.worlds.tls import Tls

SCHEMES = {
    "stomp": ("stomp", False),
    "stomp+ssl": ("stomp", True),
    "ws": ("ws", False),
    "wss": ("ws", True),
    "amqp": ("amqp", False),
    "amqps": ("amqp", True),
    "http": ("http", False),
    "https": ("http", True),
    "core": ("core", False),
    "openwire": ("openwire", False),
}
"""For each scheme, the protocol, as capabilities name it, and whether TLS is used. ``amqp`` is AMQP
1.0, AMQP 0-9-1 or both; the broker shows which."""
MANAGEMENT = "management"
"""The name of the acceptor for RabbitMQ's management API."""
BY_NAME = {"amqp": "amqp", "core": "core", "openwire": "openwire", MANAGEMENT: "http"}
"""Schemes of endpoints given as ``HOST:PORT``, by the prefix of their name; others are STOMP."""
_OPTIONS = ("ca", "certificate", "insecure")


class BadEndpoint(ValueError):
    """An unusable endpoint. The message says what is wrong and what would be right."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """``tls`` is None for unencrypted connections; ``options`` are the URL's other options."""

    scheme: str
    host: str
    port: int
    tls: Tls | None
    login: str | None
    passcode: str | None
    options: dict[str, str]
    path: str = ""
    """The resource of a WebSocket; empty for the one in the profile."""

    @property
    def protocol(self) -> str:
        return SCHEMES[self.scheme][0]

    @property
    def where(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def scheme_of(name: str) -> str:
    """Return the scheme of the endpoint ``name`` if it is given as ``HOST:PORT``."""
    return next((scheme for word, scheme in BY_NAME.items() if name.startswith(word)), "stomp")


def read(
    text: str, folder: Path, *, options: tuple[str, ...] = (), scheme: str = "stomp"
) -> Endpoint:
    """Return the endpoint that ``text`` names; relative paths start from ``folder``. ``scheme``
    applies to ``HOST:PORT``. Raises :class:`BadEndpoint`.

    The TLS options are ``ca`` (a file with the trusted authorities; by default, this machine's),
    ``certificate`` (a file with our certificate and key), and ``insecure=true``, which trusts any
    certificate.
    """
    try:
        url = urlsplit(text if "://" in text else f"{scheme}://{text}")
        host, port = url.hostname, url.port
    except ValueError as problem:
        raise BadEndpoint(f"{problem}; write HOST:PORT") from None
    if url.scheme not in SCHEMES or not host or port is None:
        forms = ", ".join(f"{scheme}://HOST:PORT" for scheme in SCHEMES)
        raise BadEndpoint(f"it should look like {forms}, or HOST:PORT")
    given = dict(parse_qsl(url.query, keep_blank_values=True))
    secure = SCHEMES[url.scheme][1]
    known = (*options, *(_OPTIONS if secure else ()))
    for name in given:
        if name not in known:
            only_tls = " without TLS" if name in _OPTIONS else ""
            there = f"the known options are {', '.join(known)}" if known else "omit it"
            raise BadEndpoint(f"unknown option {name!r}{only_tls}; {there}")
    tls = _tls(given, folder) if secure else None
    rest = {name: value for name, value in given.items() if name in options}
    return Endpoint(url.scheme, host, port, tls, url.username, url.password, rest, url.path)


def _tls(given: dict[str, str], folder: Path) -> Tls:
    insecure = given.get("insecure", "false")
    if insecure not in ("true", "false"):
        raise BadEndpoint(f"insecure is {insecure!r}; write insecure=true to trust any certificate")
    files: dict[str, Path] = {}
    for name in ("ca", "certificate"):
        if name in given:
            files[name] = folder / given[name]
            if not input_file.is_file(files[name]):
                raise BadEndpoint(
                    f"{name} names {given[name]!r}, but there is no such file; name one in PEM"
                )
    if insecure == "true" and "ca" in files:
        raise BadEndpoint(
            "ca names the authorities to trust, but insecure=true trusts any certificate; leave"
            " one of them out"
        )
    return Tls(files.get("ca"), verify=insecure == "false", own=files.get("certificate"))
