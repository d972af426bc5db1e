"""``brokerproof pairs``: judges clients and brokers together, and writes a page with the
results."""

import json
import secrets
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import click

from brokerproof.harness.cases import pairs
from brokerproof.harness.commands import errors
from brokerproof.harness.commands.judging import interruptible
from brokerproof.harness.targets import shipped_targets, target_file
from brokerproof.harness.targets.client.target import ClientTarget
from brokerproof.harness.targets.failure import SetUpFailed
from brokerproof.harness.targets.sockets import SocketTarget

BROKERS = ("reference-real", "reference-rabbitmq-alarms-real", "reference-activemq-real")
RESULTS = "pairs.ndjson"
CLIENTS = "Client to judge; repeat for several. Default: every client with a built-in driver."


@click.command("pairs")
@click.option("--client", "clients", multiple=True, help=CLIENTS)
@click.option(
    "--broker",
    "brokers",
    multiple=True,
    default=BROKERS,
    show_default=True,
    help="Target to judge; repeat for several.",
)
@click.option("--scenario", "scenarios", multiple=True, type=click.Choice([*pairs.SCENARIOS]))
@click.option("--out", required=True, type=click.Path(path_type=Path), help="Folder of results.")
@click.option("--inconclusive-ok", is_flag=True, help="Exit 0 if nothing is worse than undecided.")
@click.option("-j", "--jobs", default=4, show_default=True, help="Scenarios to run concurrently.")
def command(
    clients: Sequence[str],
    brokers: Sequence[str],
    scenarios: Sequence[str],
    out: Path,
    inconclusive_ok: bool,
    jobs: int,
) -> int:
    """Judge clients and brokers together in scenarios; write a page.

    Run it again to continue: only undecided cells are judged again.

    Exit: 0 every pair passes the scenarios that it supports · 1 at least one deviates · 2 undecided
    · 3 set-up failed · 4 usage error."""
    out.mkdir(parents=True, exist_ok=True)
    results = out / RESULTS
    names = [f"client:{name}" for name in clients or shipped_targets.clients()]
    try:
        with interruptible():
            for broker in brokers:
                done = {cell for cell, told in read(results).items() if told["cell"] != "undecided"}
                wanted = [(n, s) for n in names for s in scenarios or pairs.SCENARIOS]
                due = [(n, s) for n, s in wanted if (n.partition(":")[2], broker, s) not in done]
                if due:
                    _judge(broker, due, results, jobs)
    except KeyboardInterrupt:
        raise errors.Interrupted("repeat the command to continue") from None
    except target_file.BadTarget as problem:
        raise errors.Usage(str(problem)) from None
    except SetUpFailed as problem:
        raise errors.SetUp(str(problem)) from None
    from brokerproof.reports.view.pairs import page

    cells = read(results)
    (out / "index.html").write_text(page(cells), "utf-8")
    click.echo(str(out / "index.html"))
    found = {told["cell"] for told in cells.values()}
    return 1 if "deviates" in found else 2 if "undecided" in found and not inconclusive_ok else 0


def read(results: Path) -> dict[tuple[str, str, str], dict[str, Any]]:
    """Return the last result of each client, broker and scenario, ignoring any incomplete line."""
    lines = results.read_text("utf-8").splitlines() if results.exists() else []
    told = [json.loads(line) for line in lines if line.endswith("}")]
    return {(one["client"], one["broker"], one["scenario"]): one for one in told}


@contextmanager
def _started(name: str, kind: type[Any], logs: Path) -> Iterator[tuple[Any, str]]:
    """Yield a started target of that kind and its release. Raises :class:`SetUpFailed`."""
    target = target_file.load(name)
    if not isinstance(target, kind):
        raise errors.Usage(f"{name} cannot be part of a pair")
    try:
        yield target, target.start(logs).version
    finally:
        target.stop()


def _judge(name: str, due: Sequence[tuple[str, str]], results: Path, jobs: int) -> None:
    logs = results.parent / "logs"
    with _started(name, SocketTarget, logs) as (broker, version):
        for client_name in dict.fromkeys(client for client, _ in due):
            with _started(client_name, ClientTarget, logs) as (client, release):
                about = {"client": client_name.partition(":")[2], "client_version": release}
                about |= {"broker": name, "broker_version": version}
                one = partial(_record, client, broker, about, results)
                wanted = [scenario for which, scenario in due if which == client_name]
                alone = [which for which in wanted if "alone" in pairs.SCENARIOS[which]]
                beside = [which for which in wanted if which not in alone]
                for some, most in ((beside, jobs), (alone, 1)):
                    with ThreadPoolExecutor(most) as pool:
                        list(pool.map(one, some))


def _record(
    client: ClientTarget, broker: SocketTarget, about: dict[str, str], results: Path, scenario: str
) -> None:
    name = f"{about['client'].replace('.', '')}-{secrets.token_hex(3)}"
    cell, sentence = pairs.judge(client, broker, scenario, name)
    told = {**about, "scenario": scenario, "cell": cell, "sentence": sentence}
    with results.open("a") as file:
        file.write(f"\n{json.dumps(told)}")  # the previous line may be incomplete
    click.echo(f"{cell:9}  {about['client']}, {about['broker']}, {scenario}  {sentence}")
