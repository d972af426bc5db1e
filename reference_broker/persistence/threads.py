"""File access for callers that must not block: one thread writes and another reads, so that reads
need not wait for an fsync."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from brokerproof.harness.model.broker_io import FileEffect, FileLoaded, FilesStored, StoreFiles
from brokerproof.reference_broker.persistence.disk import Disk


class FileThreads:
    """``answer`` is called with each answer in one of the threads."""

    def __init__(self, disk: Disk, answer: Callable[[FilesStored | FileLoaded], None]) -> None:
        self._disk = disk
        self._answer = answer
        self._writer = ThreadPoolExecutor(1, "writer")
        self._reader = ThreadPoolExecutor(1, "reader")

    def carry_out(self, effect: FileEffect) -> None:
        if isinstance(effect, StoreFiles):
            self._writer.submit(self._store, effect)
        else:
            self._reader.submit(lambda: self._answer(self._disk.load(effect)))

    def _store(self, effect: StoreFiles) -> None:
        try:
            answer = self._disk.store(effect)
        # our own mistake; without an answer, the broker and all its peers would wait forever
        except Exception as problem:
            answer = FilesStored(effect.ticket, f"{type(problem).__name__}: {problem}")
        self._answer(answer)

    def close(self) -> None:
        self._writer.shutdown()
        self._reader.shutdown(cancel_futures=True)
        self._disk.close()
