"""Runs a broker in its own container by means of the testcontainers library, an extra
(``brokerproof[containers]``) that is imported only when needed. Files are copied into the container
before it starts, so the daemon may be on another machine. On this machine, ports are open on the
loopback interface only."""

import os
import re
import socket
from collections.abc import Mapping
from dataclasses import dataclass, field
from ipaddress import ip_network
from pathlib import Path
from typing import TYPE_CHECKING, Any

from brokerproof.harness.targets.failure import SetUpFailed
from brokerproof.harness.targets.local_process import listens

if TYPE_CHECKING:
    from testcontainers.core.container import DockerContainer

PROC = Path("/proc")
START_S = 120
"""Seconds until a broker must be ready once its image is local; 5 to 15 s are usual."""
ANSWER_S = 2
"""Seconds that a Docker daemon on this machine may take to accept a connection."""
_HERE = frozenset({"localhost", "127.0.0.1", "::1"})
_INSTALL = "install it with: pip install 'brokerproof[containers]'"


@dataclass(frozen=True, slots=True)
class Recipe:
    """The recipe for a broker in a container. ``ports`` are the ports inside, by acceptor;
    ``files`` are the files to copy into the container, by path."""

    broker: str
    version: str
    image: str
    ports: Mapping[str, int]
    files: Mapping[str, bytes]
    ready: re.Pattern[str]
    """The output that shows that the broker is ready."""
    environment: Mapping[str, str] = field(default_factory=dict)


class Container:
    """One container, from start to end. ``folder`` has its output and the files copied into it."""

    def __init__(self, recipe: Recipe, folder: Path) -> None:
        self._recipe, self._folder = recipe, folder
        self._container: DockerContainer | None = None

    @property
    def log(self) -> Path:
        """The broker's output, available once the container has ended."""
        return self._folder / "log" / "container.log"

    def start(self) -> dict[str, tuple[str, int]]:
        """Start the container and wait until the broker reports that it is ready; return host and
        port by acceptor. A missing image is pulled. Raises :class:`SetUpFailed`, leaving nothing
        running."""
        recipe = self._recipe
        container = self._container = self._described()
        self._keep()
        try:
            container.start()
            host = container.get_container_host_ip()
            return {
                name: (host, int(container.get_exposed_port(port)))
                for name, port in recipe.ports.items()
            }
        except Exception as problem:
            output = self._last_words()
            self.stop()
            raise SetUpFailed(self._why(problem, output)) from None
        except BaseException:
            self.stop()
            raise

    def process(self) -> int | None:
        """Return the id of the container's first process if this machine's kernel runs the process
        under that id; otherwise None (on a virtual machine or another host, or if we are in a
        container)."""
        attributes = self._attributes()
        identifier, process = attributes.get("Id"), attributes.get("State", {}).get("Pid")
        if not identifier or not process:
            return None
        try:
            groups = (PROC / str(process) / "cgroup").read_text("utf-8")
        except OSError:
            return None
        return int(process) if identifier in groups else None

    def direct_endpoints(self) -> dict[str, tuple[str, int]]:
        """Return host and port by acceptor at the container's own address if all acceptors answer
        there; otherwise nothing. Docker's proxy may forward the bytes of a published port."""
        networks = self._attributes().get("NetworkSettings", {}).get("Networks") or {}
        for address in filter(None, (network.get("IPAddress") for network in networks.values())):
            direct = {name: (address, port) for name, port in self._recipe.ports.items()}
            if all(listens(*endpoint) for endpoint in direct.values()):
                return direct
        return {}

    def _attributes(self) -> dict[str, Any]:
        """Return Docker's description of the container; empty if Docker does not answer."""
        if self._container is None:
            return {}
        try:
            container = self._container.get_wrapped_container()
            container.reload()
        except Exception:  # the broker is being judged, not the daemon
            return {}
        return dict(container.attrs)

    def _described(self) -> "DockerContainer":
        try:
            from testcontainers.core.config import ConnectionMode
            from testcontainers.core.container import DockerContainer
            from testcontainers.core.wait_strategies import LogMessageWaitStrategy
        except ImportError:
            raise SetUpFailed(
                f"{self._recipe.image}: needs the library testcontainers; {_INSTALL}"
            ) from None
        recipe = self._recipe
        if reason := _unreachable():
            raise SetUpFailed(f"{recipe.image}: {_no_daemon(reason)}")
        try:
            container = DockerContainer(recipe.image)
        except Exception as problem:
            raise SetUpFailed(f"{recipe.image}: {_no_daemon(str(_first(problem)))}") from None
        for port in recipe.ports.values():
            container.with_exposed_ports(f"{port}/tcp")
        client = container.get_docker_client()
        # Not if we ourselves run in a container and use the address of Docker's bridge.
        if client.get_connection_mode() is ConnectionMode.docker_host and client.host() in _HERE:
            # The library passes these on to the Docker client, which also accepts addresses.
            ports: dict[str, Any] = container.ports
            ports.update(dict.fromkeys(ports, ("127.0.0.1", None)))
        container.with_envs(**recipe.environment)
        for path, data in recipe.files.items():
            container.with_copy_into_container(data, path.lstrip("/"))
        return container.waiting_for(
            LogMessageWaitStrategy(recipe.ready).with_startup_timeout(START_S)
        )

    def _keep(self) -> None:
        for path, data in self._recipe.files.items():
            kept = self._folder / path.lstrip("/")
            kept.parent.mkdir(parents=True, exist_ok=True)
            kept.write_bytes(data)

    def control(self, *command: str) -> None:
        """Run a command in the container. Raises :class:`SetUpFailed` if it fails."""
        assert self._container is not None, "call start() first"
        status, output = self._container.exec(list(command))
        if status:
            text = output.decode("utf-8", "replace").strip().replace("\n", "; ")
            raise SetUpFailed(
                f"{' '.join(command)}: ended with {status} in {self._recipe.image} ({text[:300]})"
            )

    def end(self) -> str:
        """Describe how the container ended; empty if it is running or Docker does not answer."""
        state = self._attributes().get("State")
        if state is None or state["Running"]:
            return ""
        killed = " (out of memory)" if state.get("OOMKilled") else ""
        return f"its container ended with exit code {state['ExitCode']}{killed}"

    def stop(self) -> None:
        """Save the output and remove the container. Does nothing if it was never started."""
        container, self._container = self._container, None
        if container is None:
            return
        try:
            self._keep_log(container)
        finally:
            container.stop()

    def _keep_log(self, container: "DockerContainer") -> None:
        try:
            printed = b"".join(container.get_logs())
        except Exception as problem:  # there may be no container yet, or no longer
            printed = f"its output could not be read: {problem}\n".encode()
        self.log.parent.mkdir(parents=True, exist_ok=True)
        self.log.write_bytes(printed)

    def _last_words(self) -> str:
        try:
            assert self._container is not None
            lines = (
                b"\n".join(self._container.get_logs())
                .decode("utf-8", "replace")
                .strip()
                .splitlines()
            )
        except Exception:
            return ""
        return lines[-1][:200] if lines else ""

    def _why(self, problem: Exception, output: str) -> str:
        what = f"{self._recipe.image}"
        if isinstance(problem, TimeoutError):
            reason = f"was not ready within {START_S} s"
        elif isinstance(problem, RuntimeError):
            reason = "ended before it was ready"
        else:
            reason = (
                f"could not be started ({' '.join(str(problem).split())[:300]}); see whether Docker"
                " can pull the image"
            )
        return (
            f"{what}: {reason}"
            + (f"; its last output: {output!r}" if output else "")
            + f" (log: {self.log})"
        )


def published_host() -> str:
    """Return the host through which a container's ports will be reached. It is needed before the
    container exists, because the container's certificates must be valid for it.

    The host is this machine if no Docker answers, or if a container is reached at its own address,
    which is known only once the container runs.
    """
    here = "127.0.0.1"
    if _unreachable():
        return here
    try:
        from testcontainers.core.config import ConnectionMode
        from testcontainers.core.docker_client import DockerClient

        client = DockerClient()
        try:
            match client.get_connection_mode():
                case ConnectionMode.docker_host:
                    host = client.host()
                    return here if host in _HERE else host
                case ConnectionMode.gateway_ip:
                    network = client.client.networks.get("bridge")
                    ways = network.attrs["IPAM"]["Config"][0]
                    # Old daemons omit the gateway: it is the subnet's first address.
                    return ways.get("Gateway") or str(next(ip_network(ways["Subnet"]).hosts()))
                case _:
                    return here
        finally:
            client.client.close()
    except Exception:  # the code that starts the container reports why it cannot
        return here


def daemon() -> str | None:
    """Return the Docker that answers here; None if none answers or the library is missing."""
    if _unreachable():
        return None
    try:
        import docker

        client = docker.from_env()
    except Exception:
        return None
    try:
        return f"{client.version()['Version']} at {client.api.base_url}"
    except Exception:
        return None
    finally:
        client.close()


def _where() -> str:
    return os.environ.get("DOCKER_HOST") or "unix:///var/run/docker.sock"


def _unreachable() -> str:
    """Return why the file-system socket on which Docker should listen cannot be reached; empty if
    it can be reached, and for any other address.

    The library leaks a socket if it cannot connect, and a daemon that has ended leaves the file
    behind.
    """
    scheme, _, path = _where().partition("://")
    if scheme != "unix":
        return ""
    with socket.socket(socket.AF_UNIX) as probe:
        probe.settimeout(ANSWER_S)
        try:
            probe.connect(path)
        except FileNotFoundError:
            return "there is no such socket"
        except OSError as problem:
            return (problem.strerror or str(problem)).lower()
    return ""


def _first(problem: BaseException) -> BaseException:
    while (before := problem.__cause__ or problem.__context__) is not None:
        problem = before
    return problem


def _no_daemon(why: str) -> str:
    return (
        f"no Docker daemon answers at {_where()} ({why[:160]}); start one, or name another with"
        " DOCKER_HOST"
    )
