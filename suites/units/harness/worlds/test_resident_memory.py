"""Unused memory is returned to the system before a run is stopped for it."""

import gc

import pytest

from brokerproof.harness.worlds.resident_memory import give_back, resident_bytes

PIECE = 64 * 1024
"""Bytes of a piece: small enough to be allocated in a heap, between others."""
PIECES = 1600


class Cycle:
    """Holds memory until garbage is collected."""

    def __init__(self) -> None:
        self.data = bytearray(b"x" * PIECE)
        self.itself = self


@pytest.mark.skipif(resident_bytes() == 0, reason="this system does not say what is resident")
def test_garbage_is_given_back_to_the_system() -> None:
    gc.collect()
    gc.disable()
    try:
        for _ in range(PIECES):
            Cycle()
        full = resident_bytes()
        give_back()
        assert full - resident_bytes() > PIECE * PIECES // 2
    finally:
        gc.enable()
