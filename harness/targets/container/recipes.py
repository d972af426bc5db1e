"""RabbitMQ, Artemis and ActiveMQ as containers: the official images, with the files that configure
the native brokers."""

import re
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

from brokerproof.harness.targets import certificates
from brokerproof.harness.targets.activemq import broker as activemq_broker
from brokerproof.harness.targets.activemq import config as activemq_config
from brokerproof.harness.targets.artemis import broker as artemis_broker
from brokerproof.harness.targets.artemis import config as artemis_config
from brokerproof.harness.targets.container.engine import Recipe
from brokerproof.harness.targets.java_releases import version_key
from brokerproof.harness.targets.rabbitmq import broker as rabbitmq_broker
from brokerproof.harness.targets.rabbitmq import erlang_config, release

ANYWHERE = "0.0.0.0"
"""The address on which a broker in a container listens, since Docker decides who may reach it."""

_RABBITMQ = {"amqp": 5672, "stomp": 61613, "web_stomp": 15674, "management": 15672}
_RABBITMQ_ETC = "/etc/rabbitmq"
_ARTEMIS_ETC = "/var/lib/artemis-instance/etc-override"
_ARTEMIS_FILES = (
    "bootstrap.xml",  # names the login domain for clients with certificates
    "artemis-users.properties",
    "artemis-roles.properties",
    "cert-users.properties",
    "cert-roles.properties",
)
CERTIFICATES = "/etc/brokerproof-certificates"
_ACTIVEMQ_HOME = "/opt/apache-activemq"
_HERE = "127.0.0.1"


def artemis_image(version: str) -> str:
    """Return the image of release ``version``.

    Since 2.50.0, the first release of Artemis as a separate project, images are in another
    repository (https://github.com/apache/artemis/blob/2.50.0/scripts/release-docker.sh).
    """
    own_project = version_key(version) >= (2, 50)
    return f"apache/{'artemis' if own_project else 'activemq-artemis'}:{version}"


def activemq_image(version: str) -> str:
    """Return the image of release ``version``.

    The repository ``apache/activemq-classic`` was closed in February 2026: 6.2.1, and 5.19.3 in the
    older line, are the first releases that only ``apache/activemq`` has
    (https://github.com/apache/activemq/issues/1821,
    https://github.com/apache/activemq/issues/1946).
    """
    key = version_key(version)
    renamed = key >= (6, 2, 1) or (5, 19, 3) <= key < (6,)
    return f"apache/{'activemq' if renamed else 'activemq-classic'}:{version}"


def of_rabbitmq(config: Path, version: str | None, host: str = _HERE) -> Recipe:
    """Return a recipe for ``rabbitmq:VERSION-management`` with a rabbitmq.conf or a
    rabbitmq.config. Raises :class:`SetUpFailed`."""
    rabbitmq_broker.settings(config)  # report errors in the file before starting anything
    version = version or release.default_version()
    plugins = rabbitmq_broker.default_plugins(version)
    listeners = [
        f"listeners.tcp.1 = {ANYWHERE}:{_RABBITMQ['amqp']}",
        f"stomp.listeners.tcp.1 = {ANYWHERE}:{_RABBITMQ['stomp']}",
        *(
            f"{name}.tcp.{key}"
            for name in ("web_stomp", "management")
            for key in (f"ip = {ANYWHERE}", f"port = {_RABBITMQ[name]}")
        ),
        "log.console = true",  # Docker keeps only what a container prints
        "log.console.level = info",
        "",
    ]
    main = f"{_RABBITMQ_ETC}/rabbitmq{config.suffix}"
    return Recipe(
        broker="RabbitMQ",
        version=version,
        image=f"rabbitmq:{version}-management",
        ports=_RABBITMQ,
        files={
            main: config.read_bytes(),
            f"{_RABBITMQ_ETC}/conf.d/90-harness.conf": "\n".join(listeners).encode(),
            f"{_RABBITMQ_ETC}/enabled_plugins": f"[{','.join(plugins)}].\n".encode(),
        },
        ready=re.compile(r"Server startup complete"),
        environment={"RABBITMQ_CONFIG_FILE": main} if config.suffix == erlang_config.SUFFIX else {},
    )


def of_artemis(config: Path, version: str | None, host: str = _HERE) -> Recipe:
    """Return a recipe for :func:`artemis_image` with a broker.xml and the files next to it. The
    broker's certificate is valid for ``host``, where its ports will be published. Raises
    :class:`SetUpFailed`."""
    version = version or artemis_broker.RELEASES.default_version
    ports = {name: acceptor.port for name, acceptor in artemis_config.acceptors(config).items()}
    files = {f"{_ARTEMIS_ETC}/broker.xml": artemis_config.with_ports(config, {}, ANYWHERE)}
    for name in (*_ARTEMIS_FILES, "login.config"):
        beside = config.with_name(name)
        files[f"{_ARTEMIS_ETC}/{name}"] = (
            beside if beside.is_file() else artemis_broker.RELEASES.our_files / name
        ).read_bytes()
    with tempfile.TemporaryDirectory() as folder:
        certificates.make(Path(folder), host)
        files |= {
            f"{CERTIFICATES}/{path.name}": path.read_bytes() for path in Path(folder).iterdir()
        }
    return Recipe(
        broker="Apache Artemis",
        version=version,
        image=artemis_image(version),
        ports=ports,
        files=files,
        ready=re.compile(r"AMQ221007"),
        environment={"JAVA_ARGS_APPEND": f"-D{certificates.FOLDER}={CERTIFICATES}"},
    )


def of_activemq(config: Path, version: str | None, host: str = _HERE) -> Recipe:
    """Return :func:`activemq_image` with an activemq.xml. Raises :class:`SetUpFailed`."""
    version = version or activemq_broker.RELEASES.default_version
    return Recipe(
        broker="Apache ActiveMQ Classic",
        version=version,
        image=activemq_image(version),
        ports=activemq_config.connectors(config),
        files={
            f"{_ACTIVEMQ_HOME}/conf/activemq.xml": activemq_config.with_ports(config, {}, ANYWHERE),
            # Otherwise the image's entry point adds its own users to the file.
            f"{_ACTIVEMQ_HOME}/conf/connection.security.enabled": b"",
        },
        ready=re.compile(r"Apache ActiveMQ .* started", re.MULTILINE),
        # ACTIVEMQ_OPTS would replace the image's own: the size of the heap, JAAS, logging.
        environment={"JAVA_TOOL_OPTIONS": f"-Dbrokerproof.data={_ACTIVEMQ_HOME}/data"},
    )


RECIPES: Mapping[str, Callable[..., Recipe]] = {
    "rabbitmq": of_rabbitmq,
    "artemis": of_artemis,
    "activemq": of_activemq,
}
"""Recipes by the names that target files use."""
