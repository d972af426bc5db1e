"""Recordings on Hadoop's remote file systems, which Spark can read but this process cannot.

``viewfs`` is Hadoop's own file system of mounts. ``webhdfs`` is Hadoop's client for HDFS over HTTP.
Here it talks to a small substitute for a NameNode and a DataNode, which differs from the real ones
in only one header. See ``tox -e cluster``.
"""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
from pyspark.sql import SparkSession

from brokerproof.harness.catalogue.profiles import load
from brokerproof.harness.oracles.expectations import expectations_of
from brokerproof.reports.assembly.recording_judgement import source_of
from brokerproof.reports.judging.judge import find_anomalies
from brokerproof.reports.spark.session import session
from brokerproof.suites.scale.load_trace import Anomalies, write

KINDS = ["closed early", "disordered", "lost", "overrun", "shared"]


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    with session("local[2]", brief=True, heap="1g") as spark_session:
        yield spark_session


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a recording with five anomalies, in a folder called ``loads``."""
    folder = tmp_path_factory.mktemp("hadoop")
    write(folder / "loads", 40_000, Anomalies.all(10_000))
    return folder


@pytest.fixture
def served(trace: Path) -> Iterator[str]:
    """Yield the address of a server that offers the folder above the recording over WebHDFS."""

    class Answer(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            asked = urlsplit(self.path)
            of = parse_qs(asked.query)
            path, operation = (
                trace / asked.path.removeprefix("/webhdfs/v1").strip("/"),
                of["op"][0].upper(),
            )
            if not path.exists():
                remote = {
                    "exception": "FileNotFoundException",
                    "javaClassName": "java.io.FileNotFoundException",
                }
                self._say(404, {"RemoteException": {**remote, "message": asked.path}})
            elif operation == "GETFILESTATUS":
                self._say(200, {"FileStatus": _status(path, "")})
            elif operation == "LISTSTATUS":
                some = (
                    [_status(entry, entry.name) for entry in sorted(path.iterdir())]
                    if path.is_dir()
                    else []
                )
                self._say(200, {"FileStatuses": {"FileStatus": some or [_status(path, "")]}})
            elif operation == "OPEN" and "from" not in of:  # a NameNode names a DataNode
                _, port = self.connection.getsockname()
                here = f"http://127.0.0.1:{port}{self.path}&from=datanode"
                self._send(307, b"", Location=here)
            elif operation == "OPEN":
                begin = int(of.get("offset", ["0"])[0])
                length = int(of.get("length", [str(path.stat().st_size)])[0])
                self._send(200, path.read_bytes()[begin : begin + length])
            elif operation == "GETFILEBLOCKLOCATIONS":
                self._say(200, {"BlockLocations": {"BlockLocation": []}})
            else:
                fields = {
                    "fileLength": path.stat().st_size,
                    "isLastBlockComplete": True,
                    "isUnderConstruction": False,
                }
                self._say(
                    200,
                    {"LocatedBlocks": {**fields, "lastLocatedBlock": None, "locatedBlocks": []}},
                )

        def _say(self, status: int, answer: object) -> None:
            # Spark's Hadoop lacks a class (RuntimeDelegateImpl) that its client needs to read a
            # content type.
            self._send(status, json.dumps(answer).encode())

        def _send(self, status: int, data: bytes, **headers: str) -> None:
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: object) -> None:
            """Print nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Answer) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def _status(path: Path, suffix: str) -> dict[str, object]:
    status = path.stat()
    same = {
        "owner": "o",
        "group": "g",
        "permission": "755",
        "replication": 1,
        "blockSize": 2**27,
        "storagePolicy": 0,
    }
    times = {
        "accessTime": int(status.st_atime * 1000),
        "modificationTime": int(status.st_mtime * 1000),
    }
    kind = (
        {"type": "DIRECTORY", "length": 0}
        if path.is_dir()
        else {"type": "FILE", "length": status.st_size}
    )
    return {
        **same,
        **times,
        **kind,
        "pathSuffix": suffix,
        "fileId": status.st_ino,
        "childrenNum": 0,
    }


def kinds(spark: SparkSession, uri: str) -> list[str]:
    judgement = find_anomalies(
        spark, source_of(spark, [uri]), expectations_of("artemis", load("artemis").parameters)
    )
    try:
        return sorted(row.kind for row in judgement.anomalies.collect())
    finally:
        judgement.release()


def test_a_recording_on_hdfs_by_http(spark: SparkSession, served: str) -> None:
    assert kinds(spark, f"webhdfs://{served}/loads") == KINDS


def test_a_recording_on_mounts_of_viewfs(spark: SparkSession, trace: Path) -> None:
    settings = spark.sparkContext._jsc.hadoopConfiguration()
    settings.set("fs.viewfs.mounttable.traces.link./kept", trace.as_uri())
    assert kinds(spark, "viewfs://traces/kept/loads") == KINDS


def test_a_path_written_as_a_uri(spark: SparkSession, trace: Path) -> None:
    assert kinds(spark, (trace / "loads").as_uri()) == KINDS
