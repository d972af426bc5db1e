"""Recovers wire logs left by a driver, scribe or machine that died before converting them to
segments.

The files are recovered up to the last complete block, which is all but the last second. Finished
segments are kept, unfinished ones are ignored."""

import dataclasses
import re
from dataclasses import dataclass
from pathlib import Path

from brokerproof.harness.load.trace_writer import (
    ABOUT,
    CLOSING,
    LogHeader,
    TraceWriter,
    remove_log_folder,
)
from brokerproof.harness.model import strict_json
from brokerproof.harness.model.input_file import BadInput

_FILE = re.compile(r"\d{8}")


class NotRecovered(Exception):
    """A wire log cannot be converted now. The message is one sentence."""


@dataclass(frozen=True)
class Recovered:
    """The result of recovering one driver's wire log."""

    tag: str
    size: int
    events: int
    segments: int


def wire_logs(run: Path) -> list[Path]:
    """Return the folders of the wire logs in a run folder, in order."""
    return sorted(
        (path.parent for path in run.glob(f"tape/*/{ABOUT}")),
        key=lambda path: (len(path.name), path.name),
    )


def recover(run: Path, tape: Path) -> Recovered:
    """Convert the wire log in that folder to segments and remove it. Raises
    :class:`NotRecovered`."""
    try:
        # A run folder may have been moved.
        header = dataclasses.replace(LogHeader.read(tape), folder=str(run.resolve()))
        with header.held(alone=True):
            files = _left(header, tape)
            size = sum(file.stat().st_size for file in files)
            scribe = TraceWriter(header)
            for file in files:
                scribe.file(file)
            scribe.close()
            remove_log_folder(tape)
    except BlockingIOError:
        raise NotRecovered(
            f"{tape}: the load, or writing its segments, is still in progress; wait until it ends"
        ) from None
    except (OSError, ValueError) as problem:
        raise NotRecovered(f"{tape}: {problem}") from None
    return Recovered(header.tag, size, scribe.rows, scribe.segments)


def _left(header: LogHeader, tape: Path) -> list[Path]:
    """Return the files that are in no segment yet, in order. A file that the scribe was about to
    remove is already in one."""
    for partial in header.segments.glob(f".part-{header.tag}-*.partial"):
        partial.unlink()
    closing = tape / CLOSING
    if closing.exists():
        try:
            closing_record = strict_json.read(closing)
        except BadInput:  # the log's writer was killed before it wrote the segment
            closing_record = {"segment": "none", "files": []}
        if (header.segments / closing_record["segment"]).exists():
            for name in filter(_FILE.fullmatch, closing_record["files"]):
                (tape / name).unlink(missing_ok=True)
        closing.unlink()
    return sorted(path for path in tape.iterdir() if _FILE.fullmatch(path.name))
