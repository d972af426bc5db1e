"""``brokerproof init-target``: writes a target file for your own broker."""

import tempfile
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import click

from brokerproof.harness.commands import errors
from brokerproof.harness.targets import configuration_snippets
from brokerproof.harness.targets.full_addresses import FullAddresses

_NAMES = {"amqp091": "amqp", "http": "management", "ws": "web_stomp"}
"""The names of endpoints that differ from the protocol's name, by protocol."""


@click.command("init-target")
@click.option(
    "--detect",
    "addresses",
    multiple=True,
    metavar="HOST:PORT",
    help="A port of the broker, to detect its protocol; repeat for several. Default: ask.",
)
@click.option("--login", help="The login that cases use.")
@click.option(
    "--passcode-env", metavar="VARIABLE", help="The environment variable with the passcode."
)
@click.option(
    "--like", metavar="NAME", help="A built-in target of the same family; default: detected."
)
@click.option(
    "--out",
    type=click.Path(dir_okay=False, path_type=Path),
    default="my-broker.target.toml",
    show_default=True,
    help="The file to create; never overwritten.",
)
@click.option(
    "--show-broker-config",
    "family",
    type=click.Choice(configuration_snippets.FAMILIES),
    help="Print what to paste into the broker's configuration, and write nothing.",
)
def init_target(
    addresses: tuple[str, ...],
    login: str | None,
    passcode_env: str | None,
    like: str | None,
    out: Path,
    family: str | None,
) -> None:
    """Write a target file for a running broker.

    Detects the protocols on its ports, its family and release, and its addresses with low size
    limits; comments in the file say what else can be configured."""
    if family is not None:
        click.echo(configuration_snippets.snippet(family), nl=False)
        return
    if out.exists():
        raise errors.Usage(f"{out} exists; remove it, or name another file with --out")
    if not addresses:
        addresses, login, passcode_env = _asked()
    text = _detected(addresses, login, passcode_env, like)
    out.write_text(text, "utf-8")
    click.echo(f"{out} was written; brokerproof run {out}")


def _asked() -> tuple[tuple[str, ...], str | None, str | None]:
    ports = click.prompt("Ports of the broker, as HOST:PORT, separated by blanks")
    login = click.prompt("Login (empty: none)", default="", show_default=False)
    variable = ""
    if login:
        variable = click.prompt("Environment variable with the passcode", default="PASSCODE")
    return tuple(ports.split()), login or None, variable or None


def _detected(
    addresses: Iterable[str], login: str | None, passcode_env: str | None, like: str | None
) -> str:
    from brokerproof.harness.targets import credentials, endpoint  # imports every protocol
    from brokerproof.harness.targets.external import detection, dialogue, greeting
    from brokerproof.harness.targets.failure import SetUpFailed

    try:
        passcode = credentials.passcode({"passcode_env": passcode_env}, Path())
        reads = [endpoint.read(address, Path()) for address in addresses]
    except (credentials.NoCredentials, endpoint.BadEndpoint) as problem:
        raise errors.Usage(str(problem)) from None
    try:
        with ThreadPoolExecutor() as pool:
            answers = list(pool.map(lambda read: detection.detect(read, login, passcode), reads))
    except dialogue.Refused as problem:
        given = "is the one given right?" if login else "name it with --login and --passcode-env"
        raise errors.SetUp(f"{problem}; the broker needs a login: {given}") from None
    except SetUpFailed as problem:
        raise errors.SetUp(str(problem)) from None
    endpoints: dict[str, str] = {}
    spoken = []
    for read, greetings in zip(reads, answers, strict=True):
        if not greetings:
            raise errors.SetUp(f"{read.where} speaks none of the supported protocols")
        for greeted in greetings:
            name = _NAMES.get(greeted.protocol, greeted.protocol)
            endpoints.setdefault(name, detection.url(read, greeted))
        spoken += greetings
    named = next((greeted for greeted in spoken if greeted.family), greeting.Greeting(""))
    family, like = like or named.family, like or named.like
    for name, (scheme, port) in configuration_snippets.snippet_ports(family).items():
        variant = endpoint.read(f"{scheme}://{reads[0].where.rpartition(':')[0]}:{port}", Path())
        if detection.speaks(variant, scheme, login, passcode):
            endpoints.setdefault(name, f"{scheme}://{variant.where}")
    broker = next(
        (f"{greeted.broker} {greeted.version}" for greeted in spoken if greeted.broker), ""
    )
    text = _written(broker.strip(), like, login, passcode_env, endpoints, None)
    return _with_addresses(text, broker.strip(), like, login, passcode_env, endpoints)


def _with_addresses(
    text: str,
    broker: str,
    like: str,
    login: str | None,
    passcode_env: str | None,
    endpoints: dict[str, str],
) -> str:
    """Return the file with the addresses of the broker, as a run would find them."""
    from brokerproof.harness.inference import own_addresses
    from brokerproof.harness.targets import target_file
    from brokerproof.harness.targets.failure import SetUpFailed

    with tempfile.TemporaryDirectory(prefix="brokerproof-init-") as folder:
        path = Path(folder) / "detected.target.toml"
        path.write_text(text, "utf-8")
        target = target_file.load(str(path))
        try:
            target.start(Path(folder))
            own_addresses.complete(target, seed=1)
        except SetUpFailed as problem:
            raise errors.SetUp(str(problem)) from None
        finally:
            with suppress(SetUpFailed):
                target.stop()
        return _written(broker, like, login, passcode_env, endpoints, target.identity.addresses)


def _written(
    broker: str,
    like: str,
    login: str | None,
    passcode_env: str | None,
    endpoints: dict[str, str],
    addresses: FullAddresses | None,
) -> str:
    lines = [
        "# A target file of brokerproof, for a running broker.",
        "# `brokerproof capabilities --target FILE` lists what can be judged, and how to get more.",
        f'description = "{broker or "My broker"}"',
        'kind = "address"',
    ]
    if like:
        lines.append(f'like = "{like}"    # its family: profile, known deviations, exclusions')
    else:
        lines.append('profile = "any"    # no known family: the specifications alone')
    if login is None:
        lines.append('# login = "me"')
        lines.append('# passcode_env = "PASSCODE"    # or passcode_file = "FILE"')
    else:
        lines.append(f'login = "{login}"')
        lines.append(f'passcode_env = "{passcode_env}"' if passcode_env else "# passcode_env = …")
    lines.append("# local = true    # same machine, no proxy: makes a reset stronger evidence")
    lines += _advice(like)
    lines += ["", "[endpoints]", *(f'{_key(name)} = "{url}"' for name, url in endpoints.items())]
    lines += _address_lines(like, addresses)
    return "\n".join(lines) + "\n"


def _advice(like: str) -> list[str]:
    match like:
        case "artemis":
            return [
                "# Parameters that differ from the defaults, in milliseconds and bytes:",
                "# parameters = { connection_ttl_check_interval_ms = 500 }",
            ]
        case "rabbitmq":
            return [
                "# An alarm affects the whole broker: judge alarms with a separate target file:",
                '# like = "rabbitmq-alarms"',
                '# rabbitmqctl = ["docker", "exec", "NAME", "rabbitmqctl"]',
            ]
        case _:
            return []


def _address_lines(like: str, addresses: FullAddresses | None) -> list[str]:
    if addresses is not None and addresses.prefixes:
        limits = [f"{name} = {getattr(addresses, name)}" for name in sorted(addresses.stated)]
        names = [f'{_key(kind)} = "{prefix}"' for kind, prefix in addresses.prefixes.items()]
        return [
            "",
            "# Prefixes of addresses with low limits. The limits are in bytes.",
            "[addresses]",
            *names,
            *limits,
            *(['# file = "full.file."    # only with persistent="true"'] * (like == "activemq")),
        ]
    if like not in ("artemis", "activemq"):
        return []
    kinds = ("block", "fail", "page", "drop") if like == "artemis" else ("vm", "file", "off")
    return [
        "",
        "# No addresses with low limits were found. Paste into the broker's configuration what",
        f"# `brokerproof init-target --show-broker-config {like}` prints, or name your own:",
        "# [addresses]",
        *(f'# {kind} = "full.{kind}."' for kind in kinds),
    ]


def _key(name: str) -> str:
    return f'"{name}"' if "." in name else name
