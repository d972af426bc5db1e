"""The options of ``load`` and ``soak``."""

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from brokerproof.harness.commands import errors
from brokerproof.harness.load.plan import BadPlan, Fault, Sizes, duration
from brokerproof.harness.load.plan_builder import PROTOCOL, LoadOptions
from brokerproof.harness.load.protocols import PROTOCOLS
from brokerproof.harness.model.time import Duration
from brokerproof.harness.targets import target_file
from brokerproof.harness.targets.sockets import SocketTarget

F = TypeVar("F", bound=Callable[..., Any])

_OPTIONS = (
    click.option(
        "--target",
        "target",
        required=True,
        metavar="NAME|FILE|HOST:PORT|URL",
        help="The broker to drive.",
    ),
    click.option(
        "--protocol", type=click.Choice(list(PROTOCOLS)), default=PROTOCOL, show_default=True
    ),
    click.option("--producers", type=click.IntRange(0, 10**5), default=4, show_default=True),
    click.option("--consumers", type=click.IntRange(0, 10**5), default=4, show_default=True),
    click.option(
        "--connections",
        type=click.IntRange(0, 10**5),
        default=0,
        help="How many connections producers and consumers share; default: one each.",
    ),
    click.option("--queues", type=click.IntRange(1, 10**5), default=2, show_default=True),
    click.option(
        "--rate",
        type=click.IntRange(0),
        default=0,
        help="Messages per second in total; 0: as fast as possible.",
    ),
    click.option(
        "--size", default="1k", show_default=True, metavar="1k|100..10k", help="Body size in bytes."
    ),
    click.option(
        "--ack",
        type=click.Choice(["auto", "client", "client-individual"]),
        default="client-individual",
        show_default=True,
        help="How consumers settle. auto: never; client: cumulatively.",
    ),
    click.option(
        "--window",
        "--credit",
        type=click.IntRange(0, 2**31 - 1),
        default=0,
        help=(
            "A consumer's window. STOMP: bytes or messages, depending on the broker; AMQP: credit."
            " 0: the default."
        ),
    ),
    click.option(
        "--in-flight",
        type=click.IntRange(1, 10**6),
        default=200,
        show_default=True,
        help="The most unconfirmed messages per producer.",
    ),
    click.option(
        "--receipts/--no-receipts",
        "--unsettled/--settled",
        "confirmed",
        default=True,
        help=(
            "Whether messages are confirmed (SENDs with receipts, transfers unsettled)."
            " Default: yes."
        ),
    ),
    click.option(
        "--fault",
        "faults",
        multiple=True,
        metavar="cut:5s|stall:2s/500ms|restart:30s",
        help=(
            "A fault and its period: reset a connection, stall a consumer, or restart the broker."
        ),
    ),
    click.option(
        "--drivers",
        type=click.IntRange(1, 4096),
        default=1,
        show_default=True,
        help="Number of processes that share the connections.",
    ),
    click.option(
        "--seed", type=int, help="Seed of sizes and faults; default: random, stored in run.json."
    ),
    click.option(
        "--out",
        type=click.Path(path_type=Path),
        help="Run folder; default: brokerproof-out/<timestamp>.",
    ),
    click.option("--master", metavar="URL", help="A Spark master whose executors become drivers."),
)


def load_options(command: F) -> F:
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def wishes(options: dict[str, Any]) -> LoadOptions:
    """Convert the options of the command. Raises :class:`errors.Usage` for invalid ones."""
    seed = options["seed"]
    try:
        return LoadOptions(
            options["protocol"],
            options["producers"],
            options["consumers"],
            options["connections"],
            options["queues"],
            options["rate"],
            Sizes.read(options["size"]),
            options["ack"],
            options["window"],
            options["in_flight"],
            options.get("messages") or 0,
            options["confirmed"],
            tuple(map(Fault.read, options["faults"])),
            options["drivers"],
            random.SystemRandom().randrange(2**32) if seed is None else seed,
        )
    except BadPlan as problem:
        raise errors.Usage(str(problem)) from None


def socket_target(text: str) -> SocketTarget:
    """Return the target, which must run in real time. Raises :class:`errors.Usage`."""
    try:
        target = target_file.load(text)
    except target_file.BadTarget as problem:
        raise errors.Usage(str(problem)) from None
    if not isinstance(target, SocketTarget):
        raise errors.Usage(
            f"target {text} has no sockets, so it cannot be put under load; use reference-real or a"
            " broker"
        )
    return target


def lasting(text: str | None) -> Duration | None:
    """Parse a time such as ``10s``. Raises :class:`errors.Usage` for anything else."""
    try:
        return None if text is None else duration(text)
    except BadPlan as problem:
        raise errors.Usage(str(problem)) from None
