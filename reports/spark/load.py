"""The drivers of a load as tasks on a Spark cluster. Each executor drives a part, and records it on
its own disk or a shared one."""

import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack

import pyarrow as pa
from pyspark.sql import SparkSession

from brokerproof.harness.load.worker import work
from brokerproof.reports.spark.schema import spark_schema
from brokerproof.reports.spark.session import session

_SAID = pa.schema([("driver", pa.int64()), ("code", pa.int64())])


class SparkCrew:
    """Drivers on Spark's executors. Every driver needs a core of the cluster throughout the load.

    ``spark`` is an existing session on ``master``, if any. ``spare`` is the number of the cluster's
    cores that do other work.
    """

    def __init__(self, master: str, spark: SparkSession | None = None, spare: int = 0) -> None:
        self._master, self._spark, self._spare = master, spark, spare
        self._thread: threading.Thread | None = None
        self._problem = ""
        self._ending = False

    def host(self) -> str:
        if self._master.startswith("local"):
            return "127.0.0.1"
        return _address_towards(self._master)

    def start(self, address: str, token: str, drivers: int) -> None:
        self._thread = threading.Thread(
            target=self._run, args=(address, token, drivers), name="brokerproof-crew"
        )
        self._thread.start()

    def problem(self) -> str:
        return self._problem

    def stop(self) -> None:
        self._ending = True
        if self._thread is not None:
            self._thread.join()

    def _run(self, address: str, token: str, drivers: int) -> None:
        try:
            with ExitStack() as stack:
                spark = self._spark or stack.enter_context(
                    session(self._master, cores=drivers, brief=True)
                )
                cores = spark.sparkContext.defaultParallelism
                if cores < drivers + self._spare:
                    besides = " and the judges" if self._spare else ""
                    most = max(1, cores - self._spare)
                    self._problem = (
                        f"{self._master} has {cores} cores for {drivers} drivers{besides}; use"
                        f" --drivers {most}"
                    )
                    return
                _drive(spark, address, token, drivers)
        except Exception as problem:  # this thread cannot report it to anyone else
            if not self._ending:
                self._problem = (
                    f"the drivers on the cluster {self._master} failed:"
                    f" {str(problem).splitlines()[0][:300]}"
                )


def _drive(spark: SparkSession, address: str, token: str, drivers: int) -> None:
    """Run a task for each driver; return when all have ended."""

    def task(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for driver in batch.column("id").to_pylist():
                yield pa.RecordBatch.from_pylist(
                    [{"driver": driver, "code": work(address, token)}], schema=_SAID
                )

    spark.range(0, drivers, 1, drivers).mapInArrow(task, spark_schema(_SAID)).collect()


def _address_towards(master: str) -> str:
    """Return the address at which the cluster reaches this machine. It is the address of the route
    to the cluster's master."""
    host, _, port = master.removeprefix("spark://").partition(",")[0].rpartition(":")
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            probe.connect((host, int(port)))
            return str(probe.getsockname()[0])
    except (OSError, ValueError):
        return socket.gethostbyname(socket.gethostname())
