"""ActiveMQ's own Java client in a separate process: runs ``JmsClient.java`` and reports how far the
client got.

The jars come from the broker (:func:`brokerproof.harness.targets.activemq.broker.install`). The
client needs a JDK that can run source files: version 11 or later."""

import subprocess
from importlib.resources import as_file, files

from brokerproof.harness.protocols.conversation import ControlFailed
from brokerproof.harness.targets.activemq import broker
from brokerproof.harness.targets.failure import SetUpFailed
from brokerproof.harness.targets.java_runtime import NoJava, find_java
from brokerproof.harness.worlds.real import RealWorld
from brokerproof.harness.worlds.world import World

STEPS = (
    *(
        "windows",
        "prefetch",
        "pulled",
        "transacted",
        "topics",
        "request",
        "browsed",
        "selected",
        "refused",
    ),
    "closed",
)
"""The steps of the client, in order."""
_WITHIN_S = 120


def run(
    world: World, acceptor: str, login: str | None, passcode: str | None, name: str
) -> tuple[list[str], str]:
    """Return the completed steps, and what stopped the client before the last step (empty:
    nothing). The client's names begin with ``name``. Raises :class:`ControlFailed` if anything that
    the client needs is missing."""
    if not isinstance(world, RealWorld):
        raise ControlFailed(
            "ActiveMQ's client needs a target that has sockets; use --target activemq or"
            " reference-activemq-real"
        )
    try:
        home, java = (
            broker.install(),
            find_java(broker.RELEASES.java_minimum(broker.RELEASES.default_version)),
        )
    except (SetUpFailed, NoJava) as problem:
        raise ControlFailed(str(problem)) from None
    host, port = world.endpoint(acceptor)
    with as_file(files("brokerproof.harness.clients").joinpath("JmsClient.java")) as source:
        command = [str(java), "-cp", f"{home}/*", str(source)]
        asked = [f"tcp://{host}:{port}", login or "", passcode or "", name]
        try:
            ended = subprocess.run(
                [*command, *asked], capture_output=True, timeout=_WITHIN_S, check=False
            )
        except subprocess.TimeoutExpired as late:
            return (late.stdout or b"").decode().split(), f"it was not done within {_WITHIN_S} s"
    lines = ended.stderr.decode("utf-8", "replace").splitlines()
    wrong = next(
        (line for line in lines if line.startswith(("Exception", "error"))), "it printed nothing"
    )
    return ended.stdout.decode().split(), "" if ended.returncode == 0 else wrong[:300]
