"""``brokerproof infer``: measures a broker's parameters and compares them with its documents."""

import json
import tempfile
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.table import Table

from brokerproof.harness.cases.bench import Bench
from brokerproof.harness.commands import drift, errors
from brokerproof.harness.inference import discovery, profile_file
from brokerproof.harness.inference.address import infer_address, of_prefix
from brokerproof.harness.inference.credit import infer_credit
from brokerproof.harness.inference.estimate import Estimate
from brokerproof.harness.inference.liveness import infer_liveness
from brokerproof.harness.inference.window import infer_windows
from brokerproof.harness.model.enums import Clock
from brokerproof.harness.model.time import seconds
from brokerproof.harness.oracles.liveness import initial_ttl_ms
from brokerproof.harness.protocols.conversation import ControlFailed
from brokerproof.harness.targets import parameters, target_file
from brokerproof.harness.targets.failure import SetUpFailed
from brokerproof.harness.targets.target import Target

KINDS = ("liveness", "windows", "credit")
_VIRTUAL_PATIENCE_S, _REAL_PATIENCE_S = 1000, 70
_VIRTUAL_ROUNDS, _REAL_ROUNDS = 40, 2


def _check_acceptors(target: Target, *given: str | None) -> None:
    known = target.acceptors()
    for name in given:
        if name is not None and name not in known:
            raise errors.Usage(
                f"the target has no acceptor {name!r}; it has {', '.join(sorted(known))}"
            )


@click.command()
@click.option(
    "--target",
    "name",
    required=True,
    metavar="NAME|FILE|HOST:PORT|URL",
    help="The broker to measure.",
)
@click.option(
    "--only",
    "kinds",
    multiple=True,
    type=click.Choice(KINDS),
    help="What to measure; default: everything, or only the addresses if --address is given.",
)
@click.option("--acceptor", help="The STOMP acceptor to measure; default: the one suites use.")
@click.option("--amqp-acceptor", help="The AMQP acceptor to measure; default: the one suites use.")
@click.option(
    "--address",
    "prefixes",
    multiple=True,
    metavar="PREFIX",
    help=(
        "Fill new addresses with this prefix to find their limit and full policy; repeat for"
        " several."
    ),
)
@click.option(
    "--patience",
    type=click.IntRange(5, 100_000),
    metavar="SECONDS",
    help="The longest silence to wait for; default: 70 (1000 in virtual time).",
)
@click.option(
    "--seed", type=int, default=1, show_default=True, help="A number used in queue names."
)
@click.option(
    "--out",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write the measured parameters to this profile.",
)
@click.option(
    "--baseline",
    type=click.Path(dir_okay=False, exists=True, path_type=Path),
    metavar="FILE",
    help="Compare with the output of an earlier `infer --json`; exit 1 if a parameter drifted.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the estimates as JSON.")
def infer(
    name: str,
    kinds: tuple[str, ...],
    acceptor: str | None,
    amqp_acceptor: str | None,
    prefixes: tuple[str, ...],
    patience: int | None,
    seed: int,
    out: Path | None,
    baseline: Path | None,
    as_json: bool,
) -> int:
    """Measure a broker's actual parameters, with bounds, and compare them with the documented ones.

    Exit 0 if every documented value is within its bounds, otherwise 1; with --baseline, 1 only if a
    parameter drifted."""
    before = None if baseline is None else drift.read(baseline)
    try:
        target = target_file.load(name)
    except target_file.BadTarget as problem:
        raise errors.Usage(str(problem)) from None
    with tempfile.TemporaryDirectory(prefix="brokerproof-infer-") as logs:
        try:
            discovery.begin(target, Path(logs), seed)
            _check_acceptors(target, acceptor, amqp_acceptor)
            stated = documented(target, acceptor, amqp_acceptor, prefixes)
            default = KINDS if not prefixes else ()
            estimated = estimates(
                target, kinds or default, acceptor, amqp_acceptor, patience, seed, prefixes
            )
        except SetUpFailed as problem:
            raise errors.SetUp(str(problem)) from None
        finally:
            target.stop()
    if out is not None:
        profile = target.identity.profile
        out.write_text(
            profile_file.compose(profile, estimated, stated, target.identity.name), "utf-8"
        )
    wrong = [
        estimate
        for estimate in estimated
        if estimate.agrees(stated.get(estimate.parameter)) is False
    ]
    if as_json:
        click.echo(
            json.dumps([_json(estimate, stated) for estimate in estimated], ensure_ascii=False)
        )
    else:
        console = Console()
        console.print(_table(target.identity.name, estimated, stated, wide=console.width >= _WIDE))
    if before is not None:
        drifted = list(drift.between(before, [_json(estimate, stated) for estimate in estimated]))
        for sentence in drifted:
            click.echo(f"drift: {sentence}", err=as_json)
        return 1 if drifted else 0
    return 1 if wrong else 0


def estimates(
    target: Target,
    kinds: Sequence[str],
    acceptor: str | None,
    amqp_acceptor: str | None,
    patience: int | None,
    seed: int,
    prefixes: Sequence[str] = (),
) -> list[Estimate]:
    """Return every estimate of these kinds for protocols that the target speaks. If the probes of
    one kind fail, that estimate says so, and the other probes continue."""
    virtual = target.clock is Clock.VIRTUAL
    longest = seconds(patience or (_VIRTUAL_PATIENCE_S if virtual else _REAL_PATIENCE_S))
    rounds = _VIRTUAL_ROUNDS if virtual else _REAL_ROUNDS
    probes: Mapping[str, tuple[str, Callable[[Bench], list[Estimate]]]] = {
        "liveness": ("stomp", lambda bench: infer_liveness(bench, acceptor, longest, rounds)),
        "windows": ("stomp", lambda bench: infer_windows(bench, acceptor)),
        "credit": ("amqp", lambda bench: infer_credit(bench, amqp_acceptor)),
    }
    jobs = [(kind, *probes[kind]) for kind in kinds]
    for prefix in prefixes:
        jobs.append(
            (
                f"address {prefix}",
                "amqp",
                partial(infer_address, prefix=prefix, acceptor=amqp_acceptor),
            )
        )
    estimated: list[Estimate] = []
    for number, (kind, capability, probe) in enumerate(jobs):
        if capability not in target.identity.capabilities:
            estimated.append(Estimate(kind, None, "", f"the target has no {capability}"))
            continue
        bench = Bench(target, (), label=f"infer-{number}", seed=seed)
        try:
            estimated += probe(bench)
        except ControlFailed as problem:
            estimated.append(Estimate(kind, None, "", f"the probes failed: {problem}"))
        finally:
            bench.close()
    return estimated


def documented(
    target: Target, acceptor: str | None, amqp_acceptor: str | None, prefixes: Sequence[str] = ()
) -> dict[str, object]:
    """Return the values stated by the target's configuration and its family's documents, by
    parameter."""
    known, identity = target.acceptors(), target.identity
    stomp = known.get(acceptor or identity.default_acceptor, {})
    amqp = known.get(amqp_acceptor or identity.default_amqp_acceptor, {})
    stated: dict[str, object] = {name: value for name, value in stomp.items() if value is not None}
    stated |= {
        name: value
        for name, value in amqp.items()
        if name.startswith("amqp_") and value is not None
    }
    if "connection_ttl_override_ms" in stomp:
        stated["connection_ttl_ms"] = initial_ttl_ms(stomp)
    if "stomp_consumer_window_size" in stated:
        stated["stomp_consumer_window_size_individual"] = stated["stomp_consumer_window_size"]
    for name, (known_as, worth) in _SPELLED_OTHERWISE.items():
        value = identity.profile.parameters.get(known_as)
        if value is not None:
            stated[name] = worth(value)
    config = getattr(target, "config", None)  # for targets with their own file
    if isinstance(config, Path) and config.suffix == ".xml":
        for prefix in prefixes:
            values = {**identity.profile.parameters, **parameters.of_address(config, f"{prefix}x")}
            stated |= {
                of_prefix(name, prefix): values[name] for name in _OF_ADDRESSES if name in values
            }
    return stated


_SPELLED_OTHERWISE: Mapping[str, tuple[str, Callable[[Any], Any]]] = {
    "server_beat_floor_ms": ("heart_beat_floor_ms", int),
    "server beats per promise": ("server_beat_fraction", lambda fraction: 1 / fraction),
    "heart_beat_to_connection_ttl_modifier": ("silence_intervals_max", int),
    "unit of a window": ("prefetch_unit", str),
}
"""The name of a parameter in other families' profiles, and the conversion of its value: a silent
client is disconnected after ``silence_intervals_max`` of its own intervals."""
_OF_ADDRESSES = ("address_full_policy", "max_size_bytes", "max_size_messages")


def _json(estimate: Estimate, stated: Mapping[str, object]) -> dict[str, object]:
    bounds = (None, None) if estimate.range is None else (estimate.range.low, estimate.range.high)
    return {
        "parameter": estimate.parameter,
        "documented": stated.get(estimate.parameter),
        "low": None if bounds[0] is None else float(bounds[0]),
        "high": None if bounds[1] is None else float(bounds[1]),
        "choice": estimate.choice,
        "unit": estimate.unit,
        "agrees": estimate.agrees(stated.get(estimate.parameter)),
        "how": estimate.how,
    }


_WIDE = 120
"""The width from which a terminal has room for the column on how a value was found."""
_AGREEMENT = {True: "yes", False: "NO", None: ""}


def _table(
    name: str, estimated: Sequence[Estimate], stated: Mapping[str, object], *, wide: bool
) -> Table:
    """Return the table. A narrow one omits how a value was found, unless there is nothing else to
    say."""
    table = Table(title=f"{name}: measured beside documented", title_justify="left")
    for column in ("parameter", "documented", "measured", "agrees", *(["how"] if wide else [])):
        table.add_column(column, overflow="fold")
    for estimate in estimated:
        value = stated.get(estimate.parameter)
        table.add_row(
            estimate.parameter,
            "" if value is None else str(value),
            f"{estimate.value} {estimate.unit}".strip()
            if estimate.known
            else f"{estimate.value}: {estimate.how}",
            _AGREEMENT[estimate.agrees(value)],
            *([estimate.how] if wide else []),
        )
    return table
