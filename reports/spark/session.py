"""The Spark context or session of a report: this module finds Java, prints nothing, and leaves
nothing behind."""

import contextlib
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from py4j.protocol import Py4JError
from pyspark import SparkConf, SparkContext
from pyspark.errors.exceptions.captured import install_exception_handler
from pyspark.find_spark_home import _find_spark_home
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

from brokerproof.harness.targets.java_runtime import find_java
from brokerproof.reports.spark.class_archive import class_archive
from brokerproof.reports.spark.gateway import gateway

JAVA_MINIMUM = 17
# Measured on a run of 16 cases: 18 s of CPU instead of 31 s. Spark's classes take 170 MB. Without
# the last option, the JVM would collect the whole heap at every step up to this size.
_BRIEF = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:MetaspaceSize=256m"
_LOGGING = Path(__file__).with_name("log4j2.properties")


@contextlib.contextmanager
def context(
    master: str | None = None,
    *,
    cores: int | None = None,
    brief: bool = False,
    heap: str | None = None,
    daemon: str | None = None,
    classes: str = "rdd",
) -> Iterator[SparkContext]:
    """Provide a Spark context on ``master`` (default ``local[*]``) for the block, then clean up.

    ``cores`` are those of the default master (by default all cores of the machine). ``brief`` means
    that there is little data, so the JVM should not optimise code that runs once. ``heap`` is the
    driver's memory as Spark writes it (``4g``; by default 1g if brief, else a share of the
    machine's). ``daemon`` is the module from which a local master forks its Python workers (by
    default PySpark's own); ``classes`` names the archive of classes
    (:mod:`brokerproof.reports.spark.class_archive`).

    Raises :class:`brokerproof.harness.targets.java_runtime.NoJava` if there is no Java 17 or newer,
    and :class:`brokerproof.reports.spark.gateway.NoGateway` if the JVM does not start.
    """
    where = master or f"local[{cores or '*'}]"
    scratch = Path(tempfile.mkdtemp(prefix="brokerproof-spark-"))
    try:
        conf = configuration(where, scratch, cores or os.cpu_count() or 1, brief=brief)
        if heap is not None:
            conf["spark.driver.memory"] = heap
        if daemon is not None and where.startswith("local"):
            conf["spark.python.daemon.module"] = daemon
        with contextlib.ExitStack() as stack:
            connection: dict[str, str] = {}
            if "PYSPARK_GATEWAY_PORT" not in os.environ:  # spark-submit has started one
                java, home = find_java(JAVA_MINIMUM), spark_home()
                archive = class_archive(java, home, classes)
                port, secret = stack.enter_context(gateway(java, home, conf, scratch, archive))
                connection = {"PYSPARK_GATEWAY_PORT": str(port), "PYSPARK_GATEWAY_SECRET": secret}
            if where.startswith("local"):
                stack.enter_context(
                    _environment(
                        PYSPARK_PYTHON=sys.executable, PYSPARK_DRIVER_PYTHON=sys.executable
                    )
                )
            # Only for this call, because a process started later would take our JVM for its own.
            with _environment(**connection):
                started = _connect(conf)
            stack.callback(_disconnect, started)
            yield started
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


@contextlib.contextmanager
def session(
    master: str | None = None,
    *,
    cores: int | None = None,
    brief: bool = False,
    heap: str | None = None,
) -> Iterator[SparkSession]:
    """Provide a Spark session, for DataFrames, on a :func:`context` with the same arguments.
    Loading the classes of Spark SQL takes seconds, so code without DataFrames does not use a
    session."""
    with context(master, cores=cores, brief=brief, heap=heap, classes="sql") as started:
        spark = SparkSession(started)
        if brief and master is not None and not master.startswith("local"):
            _few_partitions(spark)
        try:
            yield spark
        finally:
            with contextlib.suppress(Py4JError, OSError):  # the JVM may have ended
                spark.stop()


def spark_home() -> Path:
    return Path(_find_spark_home())


def configuration(master: str, scratch: Path, cores: int, *, brief: bool = False) -> dict[str, str]:
    """Return every setting of the session. ``scratch`` is a folder that is removed with the
    session; ``cores`` determines the size of local shuffles."""
    options = f"-Dlog4j2.configurationFile={_LOGGING.as_uri()}"
    conf = {
        "spark.master": master,
        "spark.app.name": "brokerproof report",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "ERROR",
        "spark.driver.extraJavaOptions": f"{options} {_BRIEF}" if brief else options,
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.catalogImplementation": "in-memory",
        "spark.sql.warehouse.dir": (scratch / "warehouse").as_uri(),
        "spark.sql.sources.parallelPartitionDiscovery.threshold": "1000",
        # Header names are ASCII. Unicode's rules for lower case would take a tenth of the time of a
        # table of frames and change nothing.
        "spark.sql.icu.caseMappings.enabled": "false",
    }
    if brief:
        # Replanning between stages and compiling a class per query take longer here than they save.
        conf |= {"spark.sql.adaptive.enabled": "false", "spark.sql.codegen.wholeStage": "false"}
        # Compressing data in memory also takes longer than it saves.
        conf |= {"spark.sql.inMemoryColumnarStorage.compressed": "false"}
        conf |= {"spark.executor.extraJavaOptions": _BRIEF}
    if master.startswith("local"):
        conf |= {
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.local.dir": str(scratch),
            "spark.driver.memory": "1g" if brief else f"{_memory_mb()}m",
            "spark.sql.shuffle.partitions": str(min(max(cores, 2), 16)),
            "spark.default.parallelism": str(min(max(cores, 2), 16)),
            # A checksum over every shuffled row detects tasks that ran twice. Here no task does.
            "spark.sql.shuffle.orderIndependentChecksum.enabled": "false",
            "spark.sql.shuffle.orderIndependentChecksum.enableFullRetryOnMismatch": "false",
        }
    return conf


def _few_partitions(spark: SparkSession) -> None:
    """Use a few partitions per core for shuffles, which move little data. Spark's default is 200
    partitions, each of which is a task that starts Python. A ``spark-defaults.conf`` takes
    precedence."""
    configured = spark.sparkContext.getConf().get("spark.sql.shuffle.partitions")
    if configured is None:
        cores = spark.sparkContext.defaultParallelism  # of the executors so far, at least two
        spark.conf.set("spark.sql.shuffle.partitions", str(min(2 * cores, 200)))


def _memory_mb() -> int:
    """Return a quarter of the machine's memory, between 1 and 16 GiB: the driver of a local master
    does all the work."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return min(max(memory // 4, 2**30), 2**34) // 2**20


@contextlib.contextmanager
def _environment(**values: str) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def _connect(conf: dict[str, str]) -> SparkContext:
    connection = launch_gateway()  # type: ignore[no-untyped-call]
    settings = SparkConf(_jvm=connection.jvm, loadDefaults=True)
    settings.setAll(list(conf.items()))
    install_exception_handler()
    return SparkContext(conf=settings, gateway=connection)


def _disconnect(started: SparkContext) -> None:
    connection = SparkContext._gateway
    with contextlib.suppress(Py4JError, OSError):  # the JVM may have ended
        started.stop()
    if connection is not None:
        with contextlib.suppress(Py4JError, OSError):
            connection.shutdown()
    # Otherwise the next session of this process would talk to a JVM that has ended.
    SparkContext._gateway = None
    SparkContext._jvm = None
