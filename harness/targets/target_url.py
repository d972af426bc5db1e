"""Targets written as URLs, one for each endpoint, separated by commas.

The first URL has the login and, as options, settings of the whole target: ``like`` or ``profile``,
``local=true``, a passcode's source, and any parameter of the profile. A name may precede each URL,
as in ``ttl-2000=stomp://HOST:PORT``; otherwise the endpoint has the protocol's name.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from brokerproof.harness.targets import credentials, endpoint
from brokerproof.harness.targets.endpoint import SCHEMES, BadEndpoint, Endpoint

_NEXT = re.compile(r",(?=(?:[\w.-]+=)?[a-z0-9+]+://)")
_NAMED = re.compile(r"([\w.-]+)=([a-z0-9+]+://.*)", re.DOTALL)
_OF_TARGET = ("like", "profile", "local", *credentials.SOURCES)
_TLS = ("ca", "certificate", "insecure")
FORMS = (
    "stomp://HOST:PORT, stomp://LOGIN:PASSCODE@HOST:PORT, stomp+ssl://HOST:PORT?ca=FILE,"
    " amqp://HOST:PORT, amqps://HOST:PORT, ws://HOST:PORT/PATH or wss://HOST:PORT/PATH"
)


def joined(target: str, endpoints: tuple[str, ...], like: str | None = None) -> str:
    """Return the URLs of a target with further ``endpoints`` and with the ``like`` option. A
    ``HOST:PORT`` becomes a URL; anything else is returned unchanged."""
    if not endpoints and like is None:
        return target
    first = target if "://" in target else f"stomp://{target}"
    if like is not None:
        beginning, comma, rest = first, "", ""
        if cut := _NEXT.search(first):
            beginning, comma, rest = first[: cut.start()], ",", first[cut.end() :]
        first = f"{beginning}{'&' if '?' in beginning else '?'}like={like}{comma}{rest}"
    return ",".join([first, *(_with_scheme(text) for text in endpoints)])


def _with_scheme(text: str) -> str:
    if "://" in text:
        return text
    name, is_named, address = text.rpartition("=")
    return f"{name}{is_named}{endpoint.scheme_of(name)}://{address}"


def values(text: str) -> dict[str, Any]:
    """Return what URLs state about a target, in the form of a target file, with the target's
    ``endpoints`` by name, each an :class:`Endpoint`. Raises :class:`BadEndpoint` and
    ``NoCredentials``."""
    urls = _NEXT.split(text)
    result: dict[str, Any] = {"kind": "address", "endpoints": {}}
    for number, url in enumerate(urls):
        named = _NAMED.fullmatch(url)
        name, address = (named[1], named[2]) if named else ("", url)
        options = _options(address) if number == 0 else ()
        read = endpoint.read(address, Path(), options=options)
        if urlsplit(address).scheme not in SCHEMES:
            raise BadEndpoint(f"it should look like {FORMS}")
        if number == 0:
            result |= _of_target(read)
        elif read.login is not None:
            raise BadEndpoint("put the login into the first URL only")
        name = name or _usual_name(read, result["endpoints"])
        if name in result["endpoints"]:
            raise BadEndpoint(
                f"two endpoints are called {name!r}; write NAME={read.scheme}://{read.where}"
            )
        result["endpoints"][name] = read
    return result


def _options(address: str) -> tuple[str, ...]:
    """Return the options of the first URL. All are allowed, because they include the profile's
    parameters."""
    try:
        given = [name for name, _ in parse_qsl(urlsplit(address).query, keep_blank_values=True)]
    except ValueError:
        given = []  # read() reports the error
    return (*_OF_TARGET, *(name for name in given if name not in (*_TLS, *_OF_TARGET)))


def _of_target(first: Endpoint) -> dict[str, Any]:
    options = first.options
    passcode = credentials.passcode({**options, "passcode": first.passcode}, Path())
    if first.passcode and "${" not in first.passcode:
        passcode = unquote(first.passcode)
    login = first.login
    if login:
        # The value of a variable is not percent-encoded.
        login = credentials.filled_in(login) if "${" in login else unquote(login)
    parameters = {name: _value(value) for name, value in options.items() if name not in _OF_TARGET}
    about = {
        "login": login,
        "passcode": passcode,
        "like": options.get("like"),
        "profile": options.get("profile"),
        "parameters": parameters or None,
        "local": True if options.get("local") == "true" else None,
    }
    return {key: value for key, value in about.items() if value is not None}


def _value(text: str) -> int | float | str:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def _usual_name(read: Endpoint, others: Mapping[str, Endpoint]) -> str:
    names = {"http": "management", "ws": "web_stomp" if "stomp" in others else "stomp"}
    return names.get(read.protocol, read.protocol)
