"""``brokerproof brokers``: installs, starts, stops and lists real brokers to judge."""

import json
from typing import Any

import click
from rich.console import Console
from rich.table import Column, Table

from brokerproof.harness.commands import errors
from brokerproof.harness.targets import standing_brokers
from brokerproof.harness.targets.container import engine
from brokerproof.harness.targets.container.recipes import RECIPES
from brokerproof.harness.targets.failure import SetUpFailed
from brokerproof.harness.targets.managed_broker import RunningBroker

_VERSION = click.option(
    "--version", help="Release; default: the one that brokerproof is tested with."
)
_WIDE = 1000
"""The width in columns if that of the output is unknown."""
_JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


@click.group()
def brokers() -> None:
    """Install, start, stop and list real brokers (kept in a cache folder outside any checkout)."""


@brokers.command()
@click.argument("name")
@_VERSION
def install(name: str, version: str | None) -> None:
    """Download and unpack broker NAME unless it is already installed."""
    try:
        click.echo(str(standing_brokers.install(name, version)))
    except SetUpFailed as problem:
        raise errors.SetUp(str(problem)) from None


@brokers.command()
@click.argument("name")
@_VERSION
@_JSON
def start(name: str, version: str | None, as_json: bool) -> None:
    """Start broker NAME with our configuration and leave it running."""
    try:
        running = standing_brokers.start(name, version)
    except SetUpFailed as problem:
        raise errors.SetUp(str(problem)) from None
    if as_json:
        click.echo(json.dumps(_facts(running)))
        return
    for acceptor, port in running.ports.items():
        click.echo(f"{running.host}:{port}  {acceptor}")
    click.echo(
        f"{name} {running.version} runs as process {running.pid}; its log is {running.log}",
        err=True,
    )


@brokers.command()
@click.argument("name")
@click.option("--version", help="Release; default: all.")
def stop(name: str, version: str | None) -> None:
    """Stop broker NAME."""
    try:
        ended = standing_brokers.stop(name, version)
    except SetUpFailed as problem:
        raise errors.SetUp(str(problem)) from None
    for container in ended:
        click.echo(f"{name} {container.version} stopped")
    if not ended:
        click.echo(f"{name}: nothing was running")


@brokers.command("list")
@_JSON
def list_(as_json: bool) -> None:
    """List the installed and the running brokers."""
    installed = standing_brokers.listing()
    if as_json:
        rows = [
            {
                "name": broker.name,
                "version": broker.version,
                "home": str(broker.home),
                "running": None if broker.running is None else _facts(broker.running),
            }
            for broker in installed
        ]
        click.echo(json.dumps(rows))
        return
    table = Table("broker", "version", "running", Column("folder", overflow="fold"))
    for broker in installed:
        where = (
            ""
            if broker.running is None
            else f"{broker.running.host}:{next(iter(broker.running.ports.values()))}"
        )
        table.add_row(broker.name, broker.version, where, str(broker.home))
    console = Console()
    if not console.is_terminal:  # in files and pipes, paths are never broken
        console = Console(width=_WIDE)
    console.print(table)
    docker = engine.daemon()
    here = f"Docker {docker}" if docker else "there is no Docker here"
    names = ", ".join(f"{recipe}-container" for recipe in RECIPES)
    click.echo(f"Targets that run in containers: {names}; {here}")


def _facts(running: RunningBroker) -> dict[str, Any]:
    return {
        "version": running.version,
        "host": running.host,
        "ports": dict(running.ports),
        "pid": running.pid,
        "folder": str(running.folder),
        "log": str(running.log),
    }
