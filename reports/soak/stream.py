"""Judges a recording while it grows, by a streaming query over batches of newly finished
segments."""

import re
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from brokerproof.harness.model.time import Duration, Instant
from brokerproof.harness.model.verdicts import Level, Verdict
from brokerproof.harness.oracles.expectations import Expectations
from brokerproof.reports.judging.conclusion import Conclusion, conclude
from brokerproof.reports.judging.judge import find_anomalies
from brokerproof.reports.judging.segment_summary import summarise
from brokerproof.reports.soak.incremental import Suspicions
from brokerproof.reports.soak.preflight import rehearse
from brokerproof.reports.sources import Source
from brokerproof.reports.sources.segments import local, read_files
from brokerproof.reports.spark import paths as spark_paths

_ORDER = re.compile(r"part-(?P<tag>.*)-(?P<number>\d+)\.parquet")
LISTED = 20
AMQP_EVERY = 10
"""After this many batches, any AMQP connections are read again as a whole."""


@dataclass
class Seen:
    """The state of the judges, which another thread reads to display it."""

    segments: int = 0
    batches: int = 0
    looks: int = 0
    under_way: int = 0
    took: Duration = 0
    """The duration of the last batch, including the recheck if there was one."""
    longest: Duration = 0
    suspicion: str = ""
    """The last suspicion."""
    conclusion: Conclusion | None = None
    """The last conclusion, on everything recorded, that found a violation."""
    problem: BaseException | None = None
    judged_until: Instant = 0


@dataclass
class Stream:
    """``folder`` is the run folder; ``now`` returns the time on the recording's clock. After a
    judgement of everything recorded so far, the next one waits for at least ``pause`` times as long
    as the judgement took."""

    spark: SparkSession
    folder: Path
    ground: Expectations
    drivers: int
    level_of: Callable[[str], Level | None]
    now: Callable[[], Instant]
    seen: Seen = field(default_factory=Seen)
    pause: int = 5

    def __post_init__(self) -> None:
        self._suspicions = Suspicions(self.ground, self.drivers)
        self._place = 0
        self._waiting: list[str] = []
        self._took: Duration = 0
        self._looked: Instant = 0
        self._lock = threading.Lock()
        self._query: StreamingQuery | None = None

    def start(self) -> None:
        """Start judging all present and future segments. Returns once workers are ready and the
        judges have passed the preflight (:mod:`brokerproof.reports.soak.preflight`), which takes
        ten seconds of processor time. Raises :class:`NotFound`."""
        rehearse(self.spark, self.level_of)
        nothing = [
            {"place": at, "paths": []} for at in range(self.spark.sparkContext.defaultParallelism)
        ]
        summarise(self.spark, Source(nothing, read_files), self.ground).collect()
        trace = self.folder / "trace"
        trace.mkdir(parents=True, exist_ok=True)
        files = (
            self.spark.readStream.format("binaryFile")
            .schema("path string, modificationTime timestamp, length long, content binary")
            .option("recursiveFileLookup", True)
            .option("pathGlobFilter", "part-*.parquet")
            .load(spark_paths.read(trace))
        )
        writer = (
            files.select("path")
            .writeStream.foreachBatch(self._batch)
            .trigger(processingTime="1 second")
        )
        self._query = writer.option(
            "checkpointLocation", spark_paths.written(self.folder / "logs" / "stream")
        ).start()

    def stop(self) -> None:
        if self._query is not None:
            self._query.stop()

    def look(self) -> Conclusion:
        """Judge everything recorded so far."""
        with self._lock:
            begun = self.now()
            source = local([str(self.folder / "trace")], self.spark.sparkContext.defaultParallelism)
            judgement = find_anomalies(self.spark, source, self.ground)
            try:
                conclusion = conclude(judgement, self.level_of, LISTED)
            finally:
                judgement.release()
            self._took, self._looked = self.now() - begun, self.now()
            self.seen.looks += 1
            return conclusion

    def _batch(self, files: DataFrame, number: int) -> None:
        begun = self.now()
        try:
            self._judge(sorted((row.path for row in files.collect()), key=_order))
        # The caller needs the cause. Spark would only report that one of our threads failed.
        except BaseException as problem:
            self.seen.problem = problem
            raise
        self.seen.took = self.now() - begun
        self.seen.longest = max(self.seen.longest, self.seen.took)

    def _judge(self, paths: Sequence[str]) -> None:
        if self.seen.conclusion is not None:
            return
        # All segments of a driver form one piece, because a task takes longer than the summary of a
        # segment.
        by_driver = groupby(
            (path.removeprefix("file:") for path in paths), key=lambda path: _order(path)[0]
        )
        pieces = [
            {"place": self._place + at, "paths": list(some)}
            for at, (_, some) in enumerate(by_driver)
        ]
        self._place += len(pieces)
        rows = summarise(self.spark, Source(pieces, read_files), self.ground).collect()
        self._waiting += self._suspicions.enter(
            sorted((row.asDict() for row in rows), key=lambda row: row["place"]), self.now()
        )
        seen = self.seen
        seen.segments, seen.batches = seen.segments + len(paths), seen.batches + 1
        seen.under_way, seen.judged_until = self._suspicions.under_way, self.now()
        if self._suspicions.amqp and seen.batches % AMQP_EVERY == 0:
            self._waiting.append("AMQP connections are read as a whole from time to time")
        if self._waiting and self.now() - self._looked >= self.pause * self._took:
            seen.suspicion, self._waiting = self._waiting[0], []
            conclusion = self.look()
            if is_certain(conclusion, self._suspicions.grace, self.now()):
                seen.conclusion = conclusion


def is_certain(conclusion: Conclusion, grace: Duration, now: Instant) -> bool:
    """True if any violation is certain. The loss of a message is not certain while the message may
    still be in flight."""
    for wrong in conclusion.wrong:
        if wrong.verdict is not Verdict.FAIL:
            continue
        if wrong.kind != "lost" or any(
            anomaly["kind"] == "lost"
            and max(place["at_ns"] for place in anomaly["witness"]) <= now - grace
            for anomaly in conclusion.listed
        ):
            return True
    return False


def _order(path: str) -> tuple[str, int]:
    match = _ORDER.search(path)
    return (match["tag"], int(match["number"])) if match else (path, 0)
