"""``brokerproof broker``: the reference broker as a separate process.

When it is ready, it prints one JSON line on standard output and nothing else, ever::

{"ready": true, "pid": 4711, "stomp": 61613, "amqp": 5672, "core": null, "openwire": null,
     "stomp+ssl": null, "amqps": null, "acceptors": {"stomp": 61613, "amqp": 5672}, "tls": [],
     "closed": [], "broker": "brokerproof reference broker", "version": "…"}

``stomp``, ``amqp``, ``core`` and ``openwire`` are the ports of the first plain acceptor for each
protocol, ``stomp+ssl`` and ``amqps`` those of the first with TLS; null: none. ``acceptors`` has all
ports by acceptor name, ``tls`` the names of those with TLS, ``closed`` the names of those not
opened because this broker speaks none of their protocols.

Exit codes: 0 if stopped by SIGTERM, SIGINT or the end of ``--parent-pid``; 3 if an acceptor could
not be opened; 4 for bad options or a bad configuration file. Imports are few and late, because a
harness starts many brokers."""

import json
import os
import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from functools import partial
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, TypeVar

import click

from brokerproof.reference_broker.settings.acceptor import Acceptor
from brokerproof.reference_broker.settings.quotas import Quotas
from brokerproof.reference_broker.settings.settings import BadSetting, Settings

if TYPE_CHECKING:
    from brokerproof.reference_broker.persistence.disk import Disk

STOMP_PORT, AMQP_PORT = 61613, 5672
"""The default ports if neither an option nor a file names one. If an option names a port, the
others are not opened."""
PROFILES = ("artemis", "rabbitmq", "activemq")
"""The broker families that this broker supports."""
ARTEMIS, RABBITMQ, ACTIVEMQ = PROFILES

SET_UP_FAILED, USAGE = 3, 4

Command = TypeVar("Command", bound=Callable[..., Any])


class Refusal(click.ClickException):
    """The broker cannot start because its options or configuration are wrong."""

    exit_code = USAGE

    def show(self, file: IO[Any] | None = None) -> None:
        click.echo(f"brokerproof broker: {self.message}", file=file, err=file is None)


class SetUpFailed(Refusal):
    """The broker cannot start: an acceptor with a correct configuration cannot be opened."""

    exit_code = SET_UP_FAILED


def _port(protocol: str, default: str, of: str = "") -> Callable[[Command], Command]:
    """Return the option for the port of a protocol's first acceptor."""
    words = f"The port of the first {protocol} acceptor{of}; 0 picks a free one."
    return click.option(
        f"--{protocol.lower()}",
        type=click.IntRange(0, 65535),
        metavar="PORT",
        help=f"{words} [default: {default}]",
    )


@click.command()
@click.option(
    "--config",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help=(
        "An Artemis broker.xml; with --profile rabbitmq, a rabbitmq.conf; with activemq, an"
        " activemq.xml."
    ),
)
@click.option(
    "--profile",
    default=PROFILES[0],
    show_default=True,
    metavar="NAME",
    help="The broker family to imitate.",
)
@_port("STOMP", f"the file's, or {STOMP_PORT}")
@_port("AMQP", f"the file's, or {AMQP_PORT}")
@_port("CORE", "the file's; none without a file")
@_port("OpenWire", "the file's, or 61616", " of --profile activemq")
@click.option(
    "--any-port",
    is_flag=True,
    help="Put every acceptor on a free port; the options above take precedence.",
)
@click.option(
    "--transactional-acks",
    type=click.Choice(["kept", "ignored"]),
    default="kept",
    show_default=True,
    help="Keep an ACK in a transaction, as STOMP says, or ignore it, as Artemis' manual says.",
)
@click.option(
    "--quota",
    "quotas",
    multiple=True,
    metavar="NAME=NUMBER",
    help="A limit per connection; repeat for several. Names:"
    f" {', '.join(field.name for field in fields(Quotas))}.",
)
@click.option(
    "--check", is_flag=True, help="Read the configuration, list settings without effect, and exit."
)
@click.option(
    "--control",
    is_flag=True,
    help="Read memory and disk limits from standard input, as JSON lines.",
)
@click.option(
    "--parent-pid",
    type=click.IntRange(1),
    metavar="PID",
    help="End when the process with this id ends.",
)
@click.option(
    "--data",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    help="Keep pages and the journal here, so that durable data survives a restart.",
)
def broker(
    config: Path | None,
    profile: str,
    stomp: int | None,
    amqp: int | None,
    core: int | None,
    openwire: int | None,
    any_port: bool,
    transactional_acks: str,
    quotas: tuple[str, ...],
    check: bool,
    control: bool,
    parent_pid: int | None,
    data: Path | None,
) -> None:
    """Run the reference broker until SIGTERM.

    Prints one JSON line with its ports when it is ready.
    """
    if profile not in PROFILES:
        raise Refusal(
            f"--profile: {profile!r} is unknown; choose {', '.join(PROFILES[:-1])} or"
            f" {PROFILES[-1]}"
        )
    try:
        if check:
            _check(config, profile)
            return
        if data is not None and profile == RABBITMQ:
            raise Refusal(f"--data: the profile {profile} keeps everything in memory; leave it out")
        if openwire is not None and profile != ACTIVEMQ:
            raise Refusal(
                f"--openwire: the profile {profile} does not speak OpenWire; use --profile"
                f" {ACTIVEMQ}"
            )
        ports = {"STOMP": stomp, "AMQP": amqp, "CORE": core, "OPENWIRE": openwire}
        settings = _settings(config, ports, any_port, profile)
    except BadSetting as problem:
        raise Refusal(str(problem)) from None
    _run(
        replace(
            settings,
            stomp_transactional_acks_ignored=transactional_acks == "ignored",
            quotas=_quotas(quotas),
        ),
        parent_pid,
        data,
        control,
    )


def _quotas(texts: tuple[str, ...]) -> Quotas:
    known = {field.name for field in fields(Quotas)}
    given = {}
    for text in texts:
        name, _, number = text.partition("=")
        if name not in known or not (number.isascii() and number.isdecimal() and len(number) < 19):
            raise Refusal(
                f"--quota: {text!r} is not NAME=NUMBER; the names are {', '.join(sorted(known))}"
            )
        given[name] = int(number)
    return Quotas(**given)


def _settings(
    config: Path | None, ports: dict[str, int | None], any_port: bool, profile: str
) -> Settings:
    named = {protocol: port for protocol, port in ports.items() if port is not None}
    if profile != ARTEMIS:
        from brokerproof.reference_broker.config.activemq import activemq_xml
        from brokerproof.reference_broker.config.rabbitmq import rabbitmq_conf

        default, read = (
            (rabbitmq_conf.default, rabbitmq_conf.read)
            if profile == RABBITMQ
            else (activemq_xml.default, activemq_xml.read)
        )
        settings = default() if config is None else read(config)
        if config is None and named:
            spoken = tuple(
                acceptor
                for acceptor in settings.acceptors
                if named.keys() & set(acceptor.protocols)
            )
            settings = replace(settings, acceptors=spoken)
    elif config is None:
        usual = {"STOMP": STOMP_PORT, "AMQP": AMQP_PORT} | named
        settings = Settings(
            acceptors=tuple(
                Acceptor(listener.lower(), port=port, protocols=(listener,))
                for listener, port in usual.items()
                if listener in named or not named
            )
        )
    else:
        from brokerproof.reference_broker.config.artemis import broker_xml  # only this needs lxml

        settings = broker_xml.read(config)
    if any_port:
        settings = on_any_port(settings)
    known = ("STOMP", "AMQP", "CORE" if settings.activemq is None else "OPENWIRE")
    if not any(set(known) & set(acceptor.protocols) for acceptor in settings.acceptors):
        raise BadSetting(
            f"{config}: no acceptor speaks {known[0]}, {known[1]} or {known[2]};"
            f" write protocols={','.join(known)} in the URL of one"
        )
    return with_ports(settings, _ports_by_acceptor(config, settings, named))


def _ports_by_acceptor(
    config: Path | None, settings: Settings, named: Mapping[str, int]
) -> dict[str, int]:
    chosen_ports: dict[str, int] = {}
    for protocol, port in named.items():
        # Prefer a plain acceptor, which these options are meant for.
        speaking = sorted(
            (acceptor for acceptor in settings.acceptors if protocol in acceptor.protocols),
            key=_has_tls,
        )
        name = speaking[0].name if speaking else None
        if name is None:
            raise BadSetting(
                f"{config}: no acceptor speaks {protocol}; write protocols={protocol} in the URL"
                " of one"
            )
        if chosen_ports.setdefault(name, port) != port:
            raise BadSetting(
                f"{config}: acceptor {name!r} speaks {protocol} too; both options must name the"
                " same port"
            )
    return chosen_ports


def with_ports(settings: Settings, ports: Mapping[str, int]) -> Settings:
    """Return ``settings`` with the ports of the named acceptors replaced; 0 means any free port.

    Raises :class:`BadSetting` for an unknown acceptor or a port outside 0 to 65535."""
    known = {acceptor.name for acceptor in settings.acceptors}
    for name, port in ports.items():
        if name not in known:
            raise BadSetting(
                f"there is no acceptor {name!r} to give the port {port}; the acceptors are"
                f" {', '.join(sorted(known))}"
            )
        if not 0 <= port <= 65535:
            raise BadSetting(
                f"{port} is not a port for the acceptor {name!r}; write a number from 0 to 65535"
            )
    return replace(
        settings,
        acceptors=tuple(
            replace(acceptor, port=ports.get(acceptor.name, acceptor.port))
            for acceptor in settings.acceptors
        ),
    )


def on_any_port(settings: Settings) -> Settings:
    return with_ports(settings, {acceptor.name: 0 for acceptor in settings.acceptors})


def _has_tls(acceptor: Acceptor) -> bool:
    return acceptor.tls is not None


def _check(config: Path | None, profile: str) -> None:
    if config is None:
        raise BadSetting("--check needs a configuration to read; name one with --config FILE")
    from brokerproof.reference_broker.config.activemq import activemq_xml
    from brokerproof.reference_broker.config.artemis import broker_xml
    from brokerproof.reference_broker.config.rabbitmq import rabbitmq_conf

    readers = {ARTEMIS: broker_xml, RABBITMQ: rabbitmq_conf, ACTIVEMQ: activemq_xml}
    reading = readers[profile].read_with_notes(config)
    for note in reading.notes:
        click.echo(str(note))
    click.echo(
        f"{config}: valid; {len(reading.settings.acceptors)} acceptors, {len(reading.notes)}"
        " settings without effect"
    )


def _run(settings: Settings, parent: int | None, data: Path | None, control: bool) -> None:
    from brokerproof.reference_broker.persistence import store_from_settings

    if data is None:
        with tempfile.TemporaryDirectory(prefix="brokerproof-pages-") as folder:
            _serve(
                settings, parent, None, store_from_settings.disk(settings, Path(folder)), control
            )
        return
    try:
        claim = store_from_settings.claim(settings, data)
        _serve(settings, parent, data, store_from_settings.disk(settings, data, claim), control)
    except store_from_settings.InUse as problem:
        raise SetUpFailed(str(problem)) from None


def _ready(settings: Settings, ports: Mapping[str, int]) -> None:
    """Print the line that says where the broker listens."""
    from brokerproof.reference_broker.kernel.release import RELEASE

    opened = [acceptor for acceptor in settings.acceptors if acceptor.name in ports]

    def first(protocol: str, tls: bool) -> int | None:
        speaking = (
            acceptor
            for acceptor in opened
            if protocol in acceptor.protocols and _has_tls(acceptor) is tls
        )
        return next((ports[acceptor.name] for acceptor in speaking), None)

    line = {
        "ready": True,
        "pid": os.getpid(),
        "stomp": first("STOMP", tls=False),
        "amqp": first("AMQP", tls=False),
        "core": first("CORE", tls=False),
        "openwire": None if settings.activemq is None else first("OPENWIRE", tls=False),
        "stomp+ssl": first("STOMP", tls=True),
        "amqps": first("AMQP", tls=True),
        "broker": "brokerproof reference broker",
        "acceptors": dict(ports),
        "tls": [acceptor.name for acceptor in opened if _has_tls(acceptor)],
        "closed": [acceptor.name for acceptor in settings.acceptors if acceptor.name not in ports],
        "version": RELEASE,
    }
    click.echo(json.dumps(line))


def _serve(
    settings: Settings, parent: int | None, data: Path | None, disk: "Disk", control: bool
) -> None:
    from brokerproof.reference_broker.assembly import create_broker
    from brokerproof.reference_broker.persistence import store_from_settings
    from brokerproof.reference_broker.persistence.records import OtherFormat
    from brokerproof.reference_broker.runtime import asyncio_server, listening
    from brokerproof.reference_broker.runtime.resource_sampler import Readings

    try:
        if data is None or not settings.persistence_enabled:
            store_from_settings.forget_pages(disk)
            store = store_from_settings.store(settings)
        else:
            store = store_from_settings.store(settings, disk)
    except OSError as problem:
        raise SetUpFailed(f"{data}: the stored data cannot be read ({problem})") from None
    except OtherFormat as problem:
        raise SetUpFailed(f"{data}: {problem}") from None
    broker = create_broker(
        settings,
        start=asyncio_server.now(),
        session_seed=os.urandom(8).hex(),
        epoch=asyncio_server.epoch(),
        store=store,
    )
    try:
        readings = (
            Readings(data or Path(tempfile.gettempdir())) if settings.rabbitmq is not None else None
        )
        control_fd = sys.stdin.fileno() if control else None
        asyncio_server.run(
            broker,
            settings,
            partial(_ready, settings),
            parent=parent,
            disk=disk,
            readings=readings,
            control=control_fd,
        )
    except listening.CannotListen as problem:
        raise SetUpFailed(str(problem)) from None
