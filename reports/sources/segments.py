"""Recorded segments as a source: a run folder, a folder of segments, single Parquet files, on a
disk that the workers see or wherever Spark can read (``hdfs://``, ``s3a://`` and the like)."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from brokerproof.harness.trace.columns import SCHEMA
from brokerproof.harness.trace.read import UnreadableTrace
from brokerproof.reports.judging.columns import DICTIONARIES
from brokerproof.reports.read import arrow
from brokerproof.reports.sources import Piece, Source

BATCH_ROWS = 2**18
"""Rows read at once: some tens of megabytes."""
PIECE_ROWS = 4_000_000
"""A piece has about as many rows, or is a single segment."""

_PLACES = pa.schema([("path", pa.string()), ("place", pa.int64())])
_TAG = re.compile(r"(?P<tag>.*)-(?P<number>\d+)\.parquet")
_ELSEWHERE = re.compile(r"[a-z][a-z0-9+.-]+://")


@dataclass(frozen=True)
class _Segment:
    path: Path
    rows: int

    @property
    def order(self) -> tuple[str, str, int]:
        """Folder, recorder, number."""
        found = _TAG.fullmatch(self.path.name)
        return (
            (str(self.path.parent), found["tag"], int(found["number"]))
            if found
            else (str(self.path), "", 0)
        )


def is_elsewhere(name: str) -> bool:
    """Whether a name is a URI that Spark has to read, and no path of this machine."""
    return bool(_ELSEWHERE.match(name)) and not name.startswith("file://")


def local(names: Iterable[str], parallel: int = 1) -> Source:
    """The segments under these paths, in pieces for about ``parallel`` tasks at once.

    Raises :class:`brokerproof.harness.trace.read.UnreadableTrace` for a path that holds none or a
    file with other columns.
    """
    found = sorted({each for name in names for each in _under(Path(name.removeprefix("file://")))})
    segments = sorted((_Segment(path, _rows(path)) for path in found), key=lambda each: each.order)
    total = sum(each.rows for each in segments)
    most = max(1, min(PIECE_ROWS, -(-total // (parallel * 3))))
    pieces: list[Piece] = []
    for _, of_recorder in groupby(segments, key=lambda each: each.order[:2]):
        paths: list[str] = []
        rows = 0
        for each in of_recorder:
            if paths and rows + each.rows > most:
                pieces.append({"place": len(pieces), "paths": paths})
                paths, rows = [], 0
            paths.append(str(each.path.resolve()))
            rows += each.rows
        pieces.append({"place": len(pieces), "paths": paths})
    return Source(pieces, read_files, _profile(names))


def elsewhere(spark: SparkSession, uris: Sequence[str]) -> Source:
    """The segments under URIs, listed and later read by Spark's own file systems."""
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
        raise UnreadableTrace(f"{', '.join(uris)}: holds no segments part-*.parquet")

    def load(spark: SparkSession, chosen: Sequence[Piece]) -> DataFrame:
        # Files come where they are read; only the list of their places travels.
        table = pa.table(
            {
                "path": [each["paths"][0] for each in chosen],
                "place": [each["place"] for each in chosen],
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
    """The batches of a piece's files, in order."""
    content = piece.get("content")
    for path in piece["paths"]:
        yield from read_file(path if content is None else bytes(content), columns)


def read_file(source: str | bytes, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """The batches of one file, given by its path, by a URI, or by its octets."""
    wanted = [name for name in DICTIONARIES if name.partition(".")[0] in columns]
    where: str | io.BytesIO = io.BytesIO(source) if isinstance(source, bytes) else source
    with pq.ParquetFile(where, read_dictionary=wanted) as file:
        yield from file.iter_batches(batch_size=BATCH_ROWS, columns=list(columns))


def _under(path: Path) -> Iterator[Path]:
    if path.is_file():
        if path.suffix != ".parquet":
            raise UnreadableTrace(
                f"{path}: is neither a segment (part-*.parquet) nor a capture (pcap, pcapng); give"
                " one of these, a run folder, or its trace"
            )
        yield path
        return
    found = sorted(path.rglob("part-*.parquet"))
    found = [each for each in found if "report" not in each.relative_to(path).parts]
    if not found:
        raise UnreadableTrace(
            f"{path}: holds no segments (part-*.parquet); give a run folder, its trace, or a"
            " segment"
        )
    yield from found


def _rows(path: Path) -> int:
    try:
        with pq.ParquetFile(path) as file:
            schema, rows = file.schema_arrow, int(file.metadata.num_rows)
    except (OSError, pa.ArrowException) as problem:
        raise UnreadableTrace(
            f"{path}: not a readable Parquet segment ({problem}); delete it or record again"
        ) from None
    if not schema.equals(SCHEMA):
        raise UnreadableTrace(
            f"{path}: has other columns than this version of brokerproof records; record again"
        )
    return rows


def _profile(names: Iterable[str]) -> str:
    """The profile that the run folders name, if all name one."""
    found = set()
    for name in names:
        for folder in (Path(name), *Path(name).parents):
            header = folder / "run.json"
            if header.is_file():
                try:
                    targets = json.loads(header.read_text("utf-8")).get("targets", [])
                except ValueError:
                    break
                found |= {
                    str(each.get("profile", "")) for each in targets if isinstance(each, dict)
                }
                break
    return found.pop() if len(found) == 1 else ""
