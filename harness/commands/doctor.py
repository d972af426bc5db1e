"""``brokerproof doctor``: shows what this machine has, and how to get what is missing."""

import json
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec

import click
from rich.console import Console

from brokerproof.harness.model.extras import install
from brokerproof.harness.targets import java_runtime
from brokerproof.harness.targets.cache import cache_folder
from brokerproof.harness.targets.container import engine

SPARK_JAVA = 17
_JAVA = "Java for Spark and Artemis"


@dataclass(frozen=True)
class Check:
    """One thing to check. If something ``needed`` is missing, the doctor fails. Anything else that
    is missing only limits what you can do."""

    name: str
    ok: bool
    says: str
    needed: bool = True


def _python() -> Check:
    return Check(
        "Python", sys.version_info >= (3, 11), f"{sys.version.split()[0]} (3.11 or newer is needed)"
    )


def _package(name: str, extra: str = "") -> Check:
    try:
        return Check(name, True, version(name), needed=not extra)
    except PackageNotFoundError:
        how = install(extra) if extra else "install brokerproof again"
        return Check(name, False, f"is not installed; {how}", needed=not extra)


def _proton() -> Check:
    if find_spec("proton") is None:
        return _package("python-qpid-proton", "proton")
    try:
        from brokerproof.harness.clients.proton_engine import has_tls
    except ImportError as problem:
        return Check(
            "python-qpid-proton",
            False,
            f"cannot be imported ({problem}); it compiles from source and needs gcc",
            needed=False,
        )
    tls = has_tls()
    advice = (
        ""
        if tls
        else (
            "; install pkg-config and libssl-dev and reinstall it, or suites that need TLS are"
            " skipped"
        )
    )
    return Check(
        "python-qpid-proton with TLS", tls, ("yes" if tls else "no") + advice, needed=False
    )


def _java() -> Check:
    try:
        java = java_runtime.find_java(SPARK_JAVA)
    except java_runtime.NoJava as problem:
        return Check(_JAVA, False, str(problem), needed=False)
    return Check(_JAVA, True, f"{java} (Java {java_runtime.version_of(java)})", needed=False)


def _maven() -> Check:
    maven = shutil.which("mvn")
    says = maven or "not on the PATH; only needed to download real brokers"
    return Check("Maven", maven is not None, says, needed=False)


def _docker() -> Check:
    daemon = engine.daemon()
    says = (
        daemon
        or "no daemon answers, or the extra containers is not installed; only needed for brokers in containers"  # noqa: E501
    )
    return Check("Docker", daemon is not None, says, needed=False)


def _cache() -> Check:
    folder = cache_folder()
    return Check("cache folder", True, str(folder))


def checks() -> Iterator[Check]:
    yield _python()
    for name in ("pytest", "hypothesis", "pyarrow", "stomp.py"):
        yield _package(name)
    yield _package("pyspark", "spark")
    yield _proton()
    yield _java()
    yield _maven()
    yield _docker()
    yield _cache()


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def doctor(as_json: bool) -> int:
    """Check what this machine has. Exit 3 if something required is missing."""
    results = list(checks())
    if as_json:
        click.echo(json.dumps([check.__dict__ for check in results]))
    else:
        console = Console()
        for check in results:
            mark = (
                "[green]ok[/]     "
                if check.ok
                else "[red]missing[/]"
                if check.needed
                else "[yellow]without[/]"
            )
            console.print(f"{mark} {check.name}: {check.says}", highlight=False)
    return 0 if all(check.ok or not check.needed for check in results) else 3
