"""Recorded segments as a source: a run folder, a folder of segments, or single Parquet files, on a
disk that workers can reach or anywhere that Spark can read (``hdfs://``, ``s3a://`` and so on)."""

import io
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from brokerproof.harness.results import run_folder
from brokerproof.harness.trace.read import DAMAGED, UnreadableTrace, damaged, row_count
from brokerproof.reports.sources import Piece, Source
from brokerproof.reports.sources.dataframes import arrow
from brokerproof.reports.spark.on_demand import F

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

BATCH_ROWS = 2**18
"""The number of rows that are read together: some tens of megabytes."""
PIECE_ROWS = 4_000_000
"""The number of rows in a piece, unless it is a single segment."""

_PLACES = pa.schema([("path", pa.string()), ("place", pa.int64())])
_TAG = re.compile(r"(?P<tag>.*)-(?P<number>\d+)\.parquet")
_ELSEWHERE = re.compile(r"[a-z][a-z0-9+.-]+://")

DICTIONARIES = (
    "run",
    "target",
    "case",
    "vantage",
    "kind",
    "protocol",
    "command",
    "headers.list.element.name",
)
"""The columns that repeat few values, so they are read as dictionaries."""


@dataclass(frozen=True)
class _Segment:
    path: Path
    rows: int

    @property
    def order(self) -> tuple[str, str, int]:
        """The sort key: the folder, the recorder and the number."""
        match = _TAG.fullmatch(self.path.name)
        if match is None:
            return str(self.path), "", 0
        return str(self.path.parent), match["tag"], int(match["number"])


def is_elsewhere(name: str) -> bool:
    """True if a name is a URI that Spark must read, not a local path."""
    return bool(_ELSEWHERE.match(name)) and not name.startswith("file://")


def local(names: Iterable[str], parallel: int = 1) -> Source:
    """Return the segments under these paths, in pieces for about ``parallel`` tasks at once.

    Raises :class:`brokerproof.harness.trace.read.UnreadableTrace` for a path without segments or a
    file with other columns.
    """
    segments = sorted(
        (_Segment(file, row_count(file)) for file in files(names)), key=lambda file: file.order
    )
    total = sum(segment.rows for segment in segments)
    most = max(1, min(PIECE_ROWS, -(-total // (parallel * 3))))
    pieces: list[Piece] = []
    for _, of_recorder in groupby(segments, key=lambda segment: segment.order[:2]):
        paths: list[str] = []
        rows = 0
        for segment in of_recorder:
            if paths and rows + segment.rows > most:
                pieces.append({"place": len(pieces), "paths": paths})
                paths, rows = [], 0
            paths.append(str(segment.path.resolve()))
            rows += segment.rows
        pieces.append({"place": len(pieces), "paths": paths})
    headers = _headers(names)
    profiles = {
        str(target.get("profile", "")) for header in headers for target in header["targets"]
    }
    proxied = any("proxy" in header for header in headers)
    return Source(
        pieces,
        read_files,
        profiles.pop() if len(profiles) == 1 else "",
        whole=not proxied,
        captured=proxied,
        proxied=proxied,
    )


def files(names: Iterable[str]) -> list[Path]:
    """Return the segments under these paths. Raises
    :class:`brokerproof.harness.trace.read.UnreadableTrace` for a path without segments."""
    return sorted({file for name in names for file in _under(Path(name.removeprefix("file://")))})


def elsewhere(spark: "SparkSession", uris: Sequence[str]) -> Source:
    """Return the segments under URIs: Spark's file systems list them here, and read them later."""
    files = (
        spark.read.format("binaryFile")
        .option("recursiveFileLookup", True)
        .option("pathGlobFilter", "part-*.parquet")
        .load(list(uris))
    )
    listed = files.select("path").orderBy("path")
    pieces = [
        {"place": place, "paths": [row.path]} for place, row in enumerate(listed.toLocalIterator())
    ]
    if not pieces:
        raise UnreadableTrace(f"{', '.join(uris)}: contains no segments part-*.parquet")

    def load(spark: "SparkSession", chosen: Sequence[Piece]) -> "DataFrame":
        # Spark reads each file where it is needed, so only the list of files is sent.
        table = pa.table(
            {
                "path": [piece["paths"][0] for piece in chosen],
                "place": [piece["place"] for piece in chosen],
            }
        )
        named = F.broadcast(arrow(spark, table.cast(_PLACES)))
        return (
            files.select("path", "content")
            .join(named, "path")
            .select("place", F.array("path").alias("paths"), "content")
        )

    return Source(pieces, read_files, load=load)


def read_files(piece: Piece, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    content = piece.get("content")
    for path in piece["paths"]:
        yield from read_file(path if content is None else bytes(content), columns)


def read_file(source: str | bytes, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Yield the batches of one file, given by its path or by its bytes. Raises
    :class:`brokerproof.harness.trace.read.UnreadableTrace` if the file is damaged."""
    dictionaries = [name for name in DICTIONARIES if name.partition(".")[0] in columns]
    where: str | io.BytesIO = io.BytesIO(source) if isinstance(source, bytes) else source
    try:
        with pq.ParquetFile(where, read_dictionary=dictionaries) as file:
            yield from file.iter_batches(batch_size=BATCH_ROWS, columns=list(columns))
    except DAMAGED as problem:
        name = "a segment" if isinstance(source, bytes) else source
        raise UnreadableTrace(damaged(name, problem)) from None


def _under(path: Path) -> Iterator[Path]:
    if path.is_file():
        if path.suffix != ".parquet":
            raise UnreadableTrace(
                f"{path}: is neither a segment (part-*.parquet) nor a capture (pcap, pcapng); give"
                " one of these, a run folder, or its trace"
            )
        yield path
        return
    segments = [
        file
        for file in sorted(path.rglob("part-*.parquet"))
        if "report" not in file.relative_to(path).parts
    ]
    if not segments:
        raise UnreadableTrace(
            f"{path}: contains no segments (part-*.parquet); give a run folder, its trace, or a"
            " segment"
        )
    yield from segments


def _headers(names: Iterable[str]) -> list[Mapping[str, Any]]:
    headers: list[Mapping[str, Any]] = []
    for name in names:
        for folder in (Path(name), *Path(name).parents):
            if (folder / run_folder.HEADER).is_file():
                with suppress(run_folder.BadRunFolder):
                    headers.append({"targets": [], **run_folder.read(folder, traces=False)})
                break
    return headers
