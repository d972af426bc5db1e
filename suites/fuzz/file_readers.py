"""Every reader of files, with seeds, operators and the exceptions that refuse a file.

Seeds are shipped files and freshly recorded ones. A reader gets the path of a damaged file and uses
the content as the commands do. It returns, or refuses the file by one of these exceptions with a
one-sentence message.
"""

import functools
import gzip
import io
import json
import struct
import tempfile
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from brokerproof.harness.capture.pcap_files import CaptureFile
from brokerproof.harness.catalogue import deviations, profiles
from brokerproof.harness.catalogue.tables import BadData
from brokerproof.harness.commands import diff_inputs
from brokerproof.harness.counterexamples import case_file, plans
from brokerproof.harness.counterexamples.player import Came, Ref, Secret
from brokerproof.harness.counterexamples.script_builder import Composed, Line
from brokerproof.harness.model.verdicts import Verdict
from brokerproof.harness.results import difference, records, run_folder
from brokerproof.harness.results.records import UnreadableResults
from brokerproof.harness.results.run_folder import BadRunFolder
from brokerproof.harness.targets import parameters, shipped_targets, target_file
from brokerproof.harness.targets.activemq import config as activemq_config
from brokerproof.harness.targets.artemis import config as artemis_config
from brokerproof.harness.targets.certificates import make as certificates_in
from brokerproof.harness.targets.failure import SetUpFailed
from brokerproof.harness.trace import read as trace_read
from brokerproof.harness.trace.read import UnreadableTrace
from brokerproof.reference_broker.config.activemq import activemq_xml
from brokerproof.reference_broker.config.artemis import broker_xml, users_properties
from brokerproof.reference_broker.config.rabbitmq import rabbitmq_conf
from brokerproof.reference_broker.runtime import tls
from brokerproof.reference_broker.settings.acceptor import Tls
from brokerproof.reference_broker.settings.settings import BadSetting
from brokerproof.reports.model import target_summaries as report_brokers
from brokerproof.reports.sources import captures, segments
from brokerproof.reports.sources import mutants as report_mutants
from brokerproof.reports.sources.result_rows import flatten
from brokerproof.reports.sources.runs import UnreadableRun, open_run
from brokerproof.suites.fuzz import operators
from brokerproof.suites.fuzz.operators import Operator
from brokerproof.suites.units.drivers import synthetic_run


@dataclass(frozen=True)
class Reader:
    """A reader: the path of its file, its seeds, the reading function, and its exceptions."""

    name: str
    file: str
    seeds: Callable[[], Sequence[bytes]]
    read: Callable[[Path], object]
    refusals: tuple[type[Exception], ...]
    operators: tuple[Operator, ...]
    prepare: Callable[[Path], object] | None = None
    """Puts further files that the reader needs into the folder."""

    def path(self, folder: Path) -> Path:
        return folder / self.file


def _brokers() -> Path:
    return Path(str(files("brokerproof.fixtures"))) / "brokers"


def _shipped(*patterns: str) -> Callable[[], Sequence[bytes]]:
    def seeds() -> Sequence[bytes]:
        paths = [path for pattern in patterns for path in sorted(_brokers().glob(pattern))]
        return [path.read_bytes()[: 1 << 14] for path in paths]

    return seeds


@functools.cache
def _run() -> Mapping[str, bytes]:
    with tempfile.TemporaryDirectory() as folder:
        run = synthetic_run.full_run(Path(folder) / "run")
        return {
            str(path.relative_to(run)): path.read_bytes()
            for path in run.rglob("*")
            if path.is_file()
        }


def _write_run(folder: Path) -> None:
    for name, data in _run().items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)


def _file_of_run(name: str) -> Callable[[], Sequence[bytes]]:
    return lambda: [_run()[name]]


# captures


def _captures() -> Sequence[bytes]:
    folder = Path(str(files("brokerproof.fixtures"))) / "captures"
    plain = [path.read_bytes() for path in sorted(folder.glob("*.pcap"))]
    return [*plain, *map(_pcapng, plain), *(gzip.compress(data, 1, mtime=0) for data in plain[:2])]


def _pcapng(pcap: bytes) -> bytes:
    """Return a pcapng capture with timestamps in microseconds, little-endian."""
    link = struct.unpack_from("<I", pcap, 20)[0]
    blocks = [
        _block(0x0A0D0D0A, struct.pack("<IHHq", 0x1A2B3C4D, 1, 0, -1)),
        _block(1, struct.pack("<HHIHHBxxxHHqHH", link, 0, 65535, 9, 1, 6, 14, 8, 0, 0, 0)),
    ]
    place = 24
    while place + 16 <= len(pcap):
        second, fraction, kept, size = struct.unpack_from("<IIII", pcap, place)
        instant = second * 1_000_000 + fraction
        packet = pcap[place + 16 : place + 16 + kept]
        head = struct.pack("<IIIII", 0, instant >> 32, instant & 0xFFFFFFFF, kept, size)
        blocks.append(_block(6, head + packet + bytes(-kept % 4)))
        place += 16 + kept
    return b"".join(blocks)


def _block(kind: int, body: bytes) -> bytes:
    length = struct.pack("<I", len(body) + 12)
    return struct.pack("<I", kind) + length + body + length


def _in_gzip(random: Random, seed: bytes, corpus: Sequence[bytes]) -> bytes:
    """Change the compressed data, or compress plain data."""
    data = seed
    if seed.startswith(b"\x1f\x8b"):
        try:
            data = gzip.decompress(seed)
        except (OSError, EOFError, zlib.error):
            return operators.flip(random, seed, corpus)
        data = operators.binary_number(random, data, corpus)
    return gzip.compress(data[: operators.MOST_BYTES], 1, mtime=0)


def _read_capture(path: Path) -> None:
    capture = CaptureFile(path)
    for _ in capture:
        pass
    source = captures.local([str(path)])
    for piece in source.pieces:
        for batch in source.open(piece, ["at_ns", "kind", "headers"]):
            batch.validate(full=True)


# recorded runs


def _segments() -> Sequence[bytes]:
    return [data for name, data in _run().items() if name.endswith(".parquet")]


def _other_table(random: Random, seed: bytes, corpus: Sequence[bytes]) -> bytes:
    """Change a column: drop, rename, retype, or fill it with boundary values."""
    try:
        table = pq.read_table(io.BytesIO(seed))
    except (OSError, pa.ArrowException, ValueError, MemoryError):
        return operators.flip(random, seed, corpus)
    place = random.randrange(table.num_columns)
    field = table.schema.field(place)
    match random.randrange(5):
        case 0:
            table = table.remove_column(place)
        case 1:
            table = table.rename_columns(
                [name if name != field.name else "other" for name in table.column_names]
            )
        case 2:
            table = table.set_column(place, field.name, pa.nulls(table.num_rows))
        case 3:
            table = table.slice(0, random.randint(0, table.num_rows))
        case _:
            value: Any = None
            if pa.types.is_integer(field.type):
                value = max(-(2**63), min(2**63 - 1, random.choice(operators.INTEGERS)))
            elif pa.types.is_string(field.type):
                value = random.choice(operators.TEXTS)
            if value is not None:
                column = pa.array([value] * table.num_rows, field.type)
                table = table.set_column(place, field, column)
    sink = io.BytesIO()
    pq.write_table(table, sink)
    return sink.getvalue()


def _read_segment(path: Path) -> None:
    for row in trace_read.rows(path):
        trace_read.event(row)
    source = segments.local([str(path)])
    for piece in source.pieces:
        for batch in source.open(piece, ["at_ns", "kind", "headers"]):
            batch.validate(full=True)


def _read_results(path: Path) -> None:
    list(records.read(path.parent))
    latest = list(records.last_of_each(records.read(path.parent)))
    differences = difference.compare(latest, latest, across=False)
    difference.exit_code(differences, partial=False)
    flatten([open_run(path.parent)])


def _read_header(path: Path) -> None:
    run_folder.read(path.parent, traces=False)
    run_folder.cases_of(path.parent)
    side = diff_inputs.open_side("A", path.parent)
    side.describe()
    list(diff_inputs.notes(side, side, across=False))
    run = open_run(path.parent)
    _ = run.footer, run.targets, run.events()


def _case_files() -> Sequence[bytes]:
    lines = [
        Line(0, "open", 1, {"acceptor": "stomp", "parameters": {"connection_ttl_ms": 60000}}),
        Line(
            5, "send", 1, parts=(b"CONNECT\npasscode:", Secret("passcode", 0, None), b"\n\n\0\xff")
        ),
        Line(9, "receive", 1, {"count": 1, "within_s": 10.0}, frame=Came(0, "CONNECTED", [], b"")),
        Line(9, "receive", 1, {"count": 2}, frame=Came(0, "MESSAGE", [("ack", "7")], b"x\xff")),
        Line(12, "send", 1, parts=(b"ACK\nid:", Ref(1, 1, "ack"), b"\n\n\0")),
        Line(20, "pause", None, {"ms": 250.5}),
        Line(30, "leave", 1, {"how": "EOF"}),
        Line(31, "ends", 1, {"how": "RESET", "within_s": 12.5}),
    ]
    expected = {
        "kind": "frame",
        "words": "a RECEIPT",
        "conn": 1,
        "command": "RECEIPT",
        "headers": [("receipt-id", "r-1")],
        "body": b"",
        "before": 0,
    }
    header = {
        "case": "stomp.ack.x[1.2]",
        "name": "stomp.ack.x",
        "case_version": "1.2",
        "requirements": [{"id": "R-1", "level": "MUST", "source": "", "statement": ""}],
        "seed": 5,
        "detail": "none",
        "fingerprint": "0123456789abcdef",
        "arguments": plans.encode({"version": "1.2", "octets": b"\0", "names": ("a", 1, None)}),
        "plan": plans.encode({"verdict": Verdict.PASS, "set": {1, 2}, "map": {"a": [0.5, True]}}),
    }
    durations = {"kind": "duration", "words": "TTL", "lo_s": 1.0, "hi_s": None}
    kept = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"x{case_file.SUFFIX}"
        for expectation in (expected, durations):
            talk = Composed(lines, expectation, {}, [1], b"0123abcd", ["stomp"])
            case_file.write(path, case_file.CaseFile(header, talk))
            kept.append(path.read_bytes())
    return kept


def _read_case_file(path: Path) -> None:
    file = case_file.read(path)
    for key in ("arguments", "plan"):
        plans.decode(file.header.get(key))


# files that users write


def _read_target(path: Path) -> None:
    target_file.load(str(path))


def _target_files() -> Sequence[bytes]:
    endpoints = (
        b'kind = "address"\nprofile = "stomp"\nlogin = "me"\npasscode = "p"\n'
        b'endpoints = { stomp = "127.0.0.1:61613", amqp = "amqps://127.0.0.1:5671?insecure=true" }'
    )
    return [endpoints, *_shipped("*/*.target.toml")()]


def _configurations_beside(folder: Path) -> None:
    for path in _brokers().glob("*/*"):
        if path.suffix in (".xml", ".conf", ".config"):
            (folder / path.name).write_bytes(path.read_bytes())


def _read_artemis(path: Path) -> None:
    _both(
        lambda: broker_xml.read(path),
        lambda: parameters.from_file(path, {}),
        lambda: parameters.address_settings(path),
        lambda: artemis_config.acceptors(path),
    )


def _read_activemq(path: Path) -> None:
    _both(
        lambda: activemq_xml.read(path),
        lambda: parameters.from_file(path, {}),
        lambda: activemq_config.connectors(path),
        lambda: activemq_config.user(path),
    )


def _read_rabbitmq(path: Path) -> None:
    _both(lambda: rabbitmq_conf.read(path), lambda: parameters.from_file(path, {}))


def _both(*readings: Callable[[], object]) -> None:
    """Try every way of reading; at the end, raise the first refusal."""
    refusals = []
    for reading in readings:
        try:
            reading()
        except (BadSetting, SetUpFailed) as refusal:
            check_sentence(refusal)
            refusals.append(refusal)
    if refusals:
        raise refusals[0]


def _users_beside(folder: Path) -> None:
    for path in (_brokers() / "artemis").glob("*.properties"):
        (folder / path.name).write_bytes(path.read_bytes())


def _read_users(path: Path) -> None:
    users_properties.read(path)
    users_properties.read_certificates(path)


@functools.cache
def _certificates() -> Sequence[bytes]:
    with tempfile.TemporaryDirectory() as folder:
        certificates_in(Path(folder))
        return [path.read_bytes() for path in Path(folder).iterdir() if path.is_file()]


def _read_certificates(path: Path) -> None:
    tls.context(Tls(key_store=path, key_store_type="PEM", trust_store=path))


def _inferred() -> Sequence[bytes]:
    measured = [
        {"parameter": "a", "low": 1, "high": None, "unit": "ms", "agrees": True, "how": "x"},
        {"parameter": "b", "choice": "PAGE", "documented": "BLOCK"},
    ]
    return [json.dumps(measured, indent=1).encode()]


def _matrix() -> Sequence[bytes]:
    mutant = {"name": "m", "group": "g", "fault": "f", "status": "killed"}
    data = {
        "format": report_mutants.FORMAT,
        **{"killed": 1, "effort": "smoke", "extent": "first", "seed": 1},
        "mutants": [mutant, {**mutant, "name": "n", "status": "survived"}],
        "requirements": {"R-1": {"m": "killed"}},
        "controls": {"none": {"PASS": 1}},
    }
    return [json.dumps(data).encode()]


_TRACE = (UnreadableTrace,)
_SETTING = (BadSetting, SetUpFailed)
_RUN = (BadRunFolder, UnreadableRun, UnreadableResults)


def _of_run(name: str, file: str, read: Callable[[Path], object]) -> Reader:
    """The reader of one file of a run, beside the run's other files."""
    return Reader(name, file, _file_of_run(file), read, _RUN, operators.JSON, _write_run)


def _text(
    name: str,
    file: str,
    seeds: Callable[[], Sequence[bytes]],
    read: Callable[[Path], object],
    *refusals: type[Exception],
    prepare: Callable[[Path], object] | None = None,
) -> Reader:
    """The reader of a user's file or, without ``refusals``, of a broker's configuration."""
    return Reader(name, file, seeds, read, refusals or _SETTING, operators.TEXT, prepare)


def _profiles() -> Sequence[bytes]:
    folder = Path(str(files("brokerproof.fixtures"))) / "profiles"
    return [(folder / f"{name}.toml").read_bytes() for name in profiles.names()]


def _read_profile(path: Path) -> None:
    profiles.load(str(path))


def _read_inferred(path: Path) -> None:
    report_brokers.read_measured([str(path)])


def _read_matrix(path: Path) -> None:
    report_mutants.read(path.parent)


_KNOWN = "known_deviations.toml"
_USERS = "-users.properties"
_CASE, _TARGET = f"x{case_file.SUFFIX}", f"x{shipped_targets.SUFFIX}"
_READING = (UnreadableRun,)
_CASE_FILE = (case_file.BadCaseFile, plans.Unrestorable)
_TABLES = (*operators.BINARY, _other_table, _other_table)

READERS: tuple[Reader, ...] = (
    Reader("capture", "x.pcap", _captures, _read_capture, _TRACE, (*operators.BINARY, _in_gzip)),
    Reader("segment", "part-0-00000.parquet", _segments, _read_segment, _TRACE, _TABLES),
    _of_run("results", records.NAME, _read_results),
    _of_run("header", run_folder.HEADER, _read_header),
    _of_run("cases", run_folder.CASES, _read_header),
    Reader("case-file", _CASE, _case_files, _read_case_file, _CASE_FILE, operators.JSON),
    _text(
        *("target", _TARGET, _target_files, _read_target, target_file.BadTarget),
        prepare=_configurations_beside,
    ),
    _text("deviations", _KNOWN, _shipped(f"*/{_KNOWN}"), deviations.load, BadData),
    _text("profile", "x.toml", _profiles, _read_profile, BadData),
    _text(
        "broker-xml", "broker.xml", _shipped("artemis/*.xml"), _read_artemis, prepare=_users_beside
    ),
    _text("activemq-xml", "activemq.xml", _shipped("activemq/*.xml"), _read_activemq),
    _text("rabbitmq-conf", "rabbitmq.conf", _shipped("rabbitmq/*.conf"), _read_rabbitmq),
    _text("rabbitmq-config", "rabbitmq.config", _shipped("rabbitmq/*.config"), _read_rabbitmq),
    _text("users", f"artemis{_USERS}", _shipped(f"artemis/*{_USERS}"), _read_users),
    _text("certificates", "x.pem", _certificates, _read_certificates, tls.BadTls),
    Reader("inferred", "x.json", _inferred, _read_inferred, _READING, operators.JSON),
    Reader("kill-matrix", report_mutants.NAME, _matrix, _read_matrix, _READING, operators.JSON),
)

MOST_CHARACTERS = 1200
"""The longest refusal. Long names of a file and of keys fit in, a dump of the file does not."""


class BadRefusal(Exception):
    """The text of a refusal is not one sentence."""


def check_sentence(refusal: BaseException) -> None:
    """Raise :class:`BadRefusal` for text that is empty, too long, or on several lines."""
    text = str(refusal)
    if not text or "\n" in text or "Traceback" in text or len(text) > MOST_CHARACTERS:
        raise BadRefusal(f"{type(refusal).__name__} says {text[:300]!r} ({len(text)} characters)")


def try_one(reader: Reader, folder: Path, data: bytes) -> str:
    """Return the refusal's type, or nothing if ``data`` was read. Raise for a defect."""
    path = reader.path(folder)
    path.write_bytes(data)
    try:
        reader.read(path)
    except reader.refusals as refusal:
        check_sentence(refusal)
        if path.name not in str(refusal) and not isinstance(refusal, plans.Unrestorable):
            raise BadRefusal(f"does not name {path.name}: {str(refusal)[:300]}") from refusal
        return type(refusal).__name__
    return ""
