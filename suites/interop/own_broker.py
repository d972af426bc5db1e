"""Judges a broker configured with the output of ``init-target``: ``python -m
brokerproof.suites.interop.own_broker FAMILY --out DIR``.

The check pastes the printed text into a plain configuration, starts the family's broker with it,
and judges the broker as a user would: by URL and by a target file. It also judges the family's
shipped target. The check fails if a case fails on this broker but not on the shipped target, if a
run does not exit with 0 or 1, or if an area of the mission has no judged case.
"""

import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

import click
from lxml import etree

from brokerproof.harness.catalogue.areas import area_of
from brokerproof.harness.model.verdicts import Verdict
from brokerproof.harness.results import records
from brokerproof.harness.targets import configuration_snippets, shipped_targets, target_file
from brokerproof.harness.targets.sockets import SocketTarget

FILES = {"artemis": "broker.xml", "activemq": "flow.xml", "rabbitmq": "rabbitmq.conf"}
NAMESPACES = {"artemis": "urn:activemq:core", "activemq": "http://activemq.apache.org/schema/core"}
PARENTS = {
    "acceptor": "acceptors",
    "address-setting": "address-settings",
    "address": "addresses",
    "policyEntry": "policyEntries",
    "statisticsBrokerPlugin": "plugins",
    "transportConnector": "transportConnectors",
}
"""The parents of the printed elements."""
SHIPPED = {
    "artemis": ("artemis",),
    "rabbitmq": ("rabbitmq",),
    "activemq": ("activemq", "activemq-flow"),
}
"""The shipped targets that together have everything that the printed text configures."""
LOGIN = "brokerproof"
"""Login and passcode of the brokers started here."""
JUDGED = frozenset(Verdict) - {Verdict.SKIP, Verdict.ERROR, Verdict.INCONCLUSIVE}


def configuration(family: str) -> str:
    """Return a plain configuration of this family with the printed text pasted into it."""
    path = shipped_targets.families() / family / FILES[family]
    if family == "rabbitmq":
        return path.read_text("utf-8")  # the harness sets the printed plugins and ports
    namespace = NAMESPACES[family]
    root = etree.parse(str(path)).getroot()
    printed = configuration_snippets.snippet(family).replace("0.0.0.0", "127.0.0.1")
    pasted = etree.fromstring(f'<printed xmlns="{namespace}">{printed}</printed>')
    for element in [element for element in pasted if isinstance(element.tag, str)]:
        name = etree.QName(element).localname
        if name not in PARENTS:
            continue  # the permission that the login already has
        parent = next(root.iter(f"{{{namespace}}}{PARENTS[name]}"))
        keys = ("name", "match", "queue", "topic")
        for old in parent.findall(element.tag):
            if all(old.get(key) == element.get(key) for key in keys):
                parent.remove(old)  # settings that a plain configuration lacks
        parent.insert(0, element)
    return etree.tostring(root, encoding="unicode")


def started(family: str, folder: Path) -> SocketTarget:
    """Start the broker with this configuration."""
    (folder / FILES[family]).write_text(configuration(family), "utf-8")
    extra = 'version = "4.0"\n' if family == "rabbitmq" else ""
    file = folder / f"{family}.target.toml"
    file.write_text(
        f'kind = "{family}"\nprofile = "{family}"\nconfig = "{FILES[family]}"\n{extra}'
        f'login = "{LOGIN}"\npasscode = "{LOGIN}"\n'
    )
    broker = target_file.load(str(file))
    assert isinstance(broker, SocketTarget)
    broker.start(folder)
    return broker


def urls(family: str, broker: SocketTarget) -> str:
    """Return the endpoints of a broker in the form that --target takes."""
    schemes = {"amqp": "amqp", "management": "http", "web_stomp": "ws", "core": "core"}
    schemes["openwire"] = "openwire"
    parts = []
    for name, (host, port) in broker.endpoints.items():
        if name in broker.tls or "tls" in name or name == "wss":
            continue
        scheme = next(
            (scheme for word, scheme in schemes.items() if name.startswith(word)), "stomp"
        )
        path = "/ws" if scheme == "ws" else ""
        parts.append(f"{name}={scheme}://{host}:{port}{path}")
    parts.sort(key=lambda part: not part.startswith("stomp="))
    first = parts[0].replace("://", f"://{LOGIN}:{LOGIN}@") + f"?like={family}&local=true"
    if family == "artemis":
        first += "&connection_ttl_check_interval_ms=500"
    return ",".join([first, *parts[1:]])


def written(family: str, broker: SocketTarget, folder: Path) -> str:
    """Write the target file that corresponds to the URLs; return its path."""
    lines = ['kind = "address"', f'like = "{family}"', f'login = "{LOGIN}"']
    lines += [f'passcode = "{LOGIN}"', "local = true"]
    if family == "artemis":
        lines.append("parameters = { connection_ttl_check_interval_ms = 500 }")
    lines.append("[endpoints]")
    for part in urls(family, broker).replace(f"{LOGIN}:{LOGIN}@", "").split(","):
        name, _, url = part.partition("=")
        lines.append(f"{name!r} = {url.partition('?')[0]!r}")
    if family == "activemq":
        lines += ["[addresses]", *(f'{kind} = "full.{kind}."' for kind in ("vm", "file", "off"))]
    path = folder / f"own-{family}.target.toml"
    path.write_text("\n".join(lines) + "\n")
    return str(path)


def judged(targets: Iterable[str], out: Path) -> int:
    """Judge targets as a user would; return the exit code."""
    command = [sys.executable, "-m", "brokerproof.harness.commands.cli", "run"]
    for target in targets:
        command += ["--target", target]
    options = ["--seed", "1", "--inconclusive-ok", "--no-report", "--out", str(out)]
    return subprocess.run([*command, *options], check=False).returncode


def failures(out: Path) -> set[str]:
    """Return the cases of a run that ended in a failure or an error."""
    return {
        result.case
        for result in records.read(out)
        if result.verdict in (Verdict.FAIL, Verdict.ERROR)
    }


def areas(out: Path) -> set[str]:
    """Return the areas of the mission in which a requirement was judged."""
    return {
        str(area_of(finding.requirement))
        for result in records.read(out)
        for finding in result.findings
        if finding.verdict in JUDGED
    }


@click.command()
@click.argument("family", type=click.Choice(sorted(FILES)))
@click.option("--out", type=click.Path(path_type=Path), required=True)
def main(family: str, out: Path) -> None:
    """Judge your own broker by URL and by file, and the shipped target of its family."""
    problems = []
    with tempfile.TemporaryDirectory(prefix="brokerproof-own-") as name:
        folder = Path(name)
        broker = started(family, folder)
        try:
            ways = {"url": urls(family, broker), "file": written(family, broker, folder)}
            codes = {way: judged([target], out / way) for way, target in ways.items()}
        finally:
            broker.stop()
    codes["shipped"] = judged(SHIPPED[family], out / "shipped")
    known = failures(out / "shipped")
    expected = areas(out / "shipped")
    for way in ways:
        if codes[way] not in (0, 1):
            problems.append(f"{way}: exit {codes[way]}")
        if new := sorted(failures(out / way) - known):
            problems.append(f"{way}: fails where the shipped target does not: {', '.join(new)}")
        if missing := sorted(expected - areas(out / way)):
            problems.append(f"{way}: nothing was judged of {', '.join(missing)}")
    click.echo("\n".join(problems) or f"{family}: as the shipped target, by URL and by file")
    sys.exit(bool(problems))


if __name__ == "__main__":
    main()
