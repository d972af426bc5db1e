"""A disk in memory for virtual time, with seeded latency, limited space, failing writes and power
failures.

The disk distinguishes written from synced data. After :meth:`MemoryDisk.power_loss`, a file holds
the synced data and a random part of later writes: nothing, everything, or everything up to some
byte, where the last block may be torn. :meth:`MemoryDisk.killed` ends only the process: written
data stays. In both cases the operation in progress may be incomplete.
"""

import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Self

from brokerproof.harness.model.broker_io import (
    FileEffect,
    FileLoaded,
    FilesStored,
    StoreFiles,
    Write,
)
from brokerproof.harness.model.time import Duration, Instant

BLOCK = 512
"""The size of a block, of which either everything or an unpredictable part survives."""


@dataclass(slots=True)
class DiskFaults:
    """The largest latencies in ns, and probabilities. ``space`` is in bytes; None: unlimited."""

    write: Duration = 0
    read: Duration = 0
    failing_writes: float = 0.0
    failing_syncs: float = 0.0
    failing_reads: float = 0.0
    space: int | None = None


class _File:
    __slots__ = ("content", "synced")

    def __init__(self) -> None:
        self.content = bytearray()
        self.synced = b""


class MemoryDisk:
    """``seed`` determines all random choices. ``faults`` may be replaced at any time."""

    def __init__(self, seed: int = 0, faults: DiskFaults | None = None) -> None:
        self.faults = DiskFaults() if faults is None else faults
        self._dice = random.Random(seed)
        self._files: dict[str, _File] = {}
        self.written = self.syncs = 0
        self._under_way: tuple[Instant, StoreFiles, dict[str, tuple[bytes, bytes]]] | None = None

    # --- what the store asks for ------------------------------------------------------------------

    def carry(self, now: Instant, effect: FileEffect) -> tuple[Instant, FilesStored | FileLoaded]:
        """Perform the request immediately, and return when its answer is due."""
        faults, dice = self.faults, self._dice
        if isinstance(effect, StoreFiles):
            at = now + dice.randint(0, faults.write)
            self._under_way = (
                at,
                effect,
                {
                    name: (bytes(content.content), content.synced)
                    for name, content in self._files.items()
                },
            )
            return at, self._store(effect)
        at = now + dice.randint(0, faults.read)
        file = self._files.get(effect.file)
        if file is None or dice.random() < faults.failing_reads:
            return at, FileLoaded(
                effect.ticket, b"", f"{effect.file}: cannot be read (Input/output error)"
            )
        return at, FileLoaded(
            effect.ticket, bytes(file.content[effect.offset : effect.offset + effect.length])
        )

    def _store(self, effect: StoreFiles) -> FilesStored:
        for name in effect.aside:
            if name in self._files:
                file = self._files.setdefault(f"damaged/{name}.0", _File())
                file.content = bytearray(self._files[name].content)
                file.synced = bytes(file.content)
        for name in effect.before:
            self._files.pop(name, None)
        for write in effect.writes:
            file = self._files.setdefault(write.file, _File())
            problem = self._write(file, write)
            if problem is not None:
                return FilesStored(
                    effect.ticket,
                    f"{write.file}: cannot be written ({problem})",
                    "space" in problem,
                )
            if write.sync:
                if self._dice.random() < self.faults.failing_syncs:
                    self._tear(file)  # a failed fsync may leave anything, even in the cache
                    return FilesStored(
                        effect.ticket, f"{write.file}: fsync failed (Input/output error)"
                    )
                file.synced = bytes(file.content)
                self.syncs += 1
        for name in effect.removes:
            self._files.pop(name, None)
        return FilesStored(effect.ticket)

    def _write(self, file: _File, write: Write) -> str | None:
        data, problem = write.data, None
        if self._dice.random() < self.faults.failing_writes:
            data, problem = data[: self._dice.randint(0, len(data))], "Input/output error"
        if self.faults.space is not None:
            room = self.faults.space - self.used + max(0, len(file.content) - write.offset)
            if room < len(data):
                data, problem = data[: max(0, room)], "No space left on device"
        if write.offset > len(file.content):
            file.content.extend(bytes(write.offset - len(file.content)))
        file.content[write.offset : write.offset + len(data)] = data
        self.written += len(data)
        return problem

    @property
    def used(self) -> int:
        """Return the number of bytes in all files."""
        return sum(len(file.content) for file in self._files.values())

    # --- what happens to it -----------------------------------------------------------------------

    def power_loss(self, now: Instant) -> None:
        """Lose or tear some unsynced data."""
        self.killed(now)
        for name in list(self._files):
            file = self._files[name]
            if not file.synced and self._dice.random() < 0.5:
                del self._files[name]
                continue
            self._tear(file)
            file.synced = bytes(file.content)

    def killed(self, now: Instant) -> None:
        """End the process: everything that it wrote stays, synced or not."""
        if self._under_way is None or self._under_way[0] <= now:
            return
        _, effect, image = self._under_way
        self._under_way = None
        self._files.clear()
        for name, (data, synced) in image.items():
            file = self._files[name] = _File()
            file.content, file.synced = bytearray(data), synced
        done = self._dice.randint(0, len(effect.writes) + len(effect.removes) + 1)
        writes = list(effect.writes[:done])
        if done < len(effect.writes):
            last = effect.writes[done]
            writes.append(
                replace(last, data=last.data[: self._dice.randint(0, len(last.data))], sync=False)
            )
        self._store(
            StoreFiles(
                effect.ticket,
                tuple(writes),
                effect.removes[: max(0, done - len(effect.writes))],
                effect.before,
                effect.aside,
            )
        )

    def _tear(self, file: _File) -> None:
        written, synced = bytes(file.content), file.synced
        if written == synced:
            return
        same = min(len(written), len(synced))
        end = self._dice.choice((same, len(written), self._dice.randint(same, len(written))))
        kept = bytearray(written[:end])
        for begin in range(0, same, BLOCK):  # written in place: the old block, the new, or neither
            block = slice(begin, min(begin + BLOCK, same))
            if written[block] != synced[block]:
                torn = self._dice.randbytes(block.stop - begin)
                kept[block] = self._dice.choice((written[block], synced[block], torn))
        if end > same and self._dice.random() < 0.5:
            begin = max(same, (end - 1) // BLOCK * BLOCK)
            kept[begin:end] = self._dice.randbytes(end - begin)
        file.content = kept

    def contents(self) -> dict[str, bytes]:
        """Return the content of each file by its path."""
        return {path: bytes(file.content) for path, file in self._files.items()}

    def synced(self) -> dict[str, bytes]:
        """Return the bytes that survive any power failure, by file."""
        return {name: file.synced for name, file in self._files.items() if file.synced}

    @classmethod
    def holding(cls, files: Mapping[str, bytes]) -> Self:
        disk = cls()
        for name, data in files.items():
            file = disk._files[name] = _File()
            file.content, file.synced = bytearray(data), data
        return disk

    def spoil(self, name: str, at: int) -> None:
        file = self._files[name]
        file.content[at] ^= 0xFF
        file.synced = bytes(file.content)

    def put(self, name: str, data: bytes | None) -> None:
        """Replace the synced content of a file; None removes the file."""
        self._files.pop(name, None)
        if data is not None:
            file = self._files[name] = _File()
            file.content, file.synced = bytearray(data), data

    # --- what recovery asks for -------------------------------------------------------------------

    def names(self) -> Iterator[str]:
        yield from sorted(self._files)

    def read(self, name: str) -> bytes:
        return bytes(self._files[name].content)

    def read_part(self, name: str, offset: int, length: int) -> bytes:
        """Return those of the requested bytes of a file that exist."""
        return bytes(self._files[name].content[offset : offset + length])

    def size(self, name: str) -> int:
        """Return the size of a file in bytes."""
        return len(self._files[name].content)
