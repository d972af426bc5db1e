"""Records, messages and operations as octets; real files."""

from __future__ import annotations

import contextlib
import errno
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from brokerproof.harness.model.broker_io import FilesStored, LoadFile, StoreFiles, Write
from brokerproof.harness.model.enums import FullPolicy, RoutingType
from brokerproof.reference_broker.kernel.large_body import LargeBody, LargeBodySlice
from brokerproof.reference_broker.kernel.message import Entry, Envelope, LargeMessage, Message
from brokerproof.reference_broker.persistence import (
    codec,
    operations,
    page,
    records,
    store_from_settings,
)
from brokerproof.reference_broker.persistence.disk import Disk
from brokerproof.reference_broker.protocols.amqp10.large import LargeAmqpMessage
from brokerproof.reference_broker.protocols.amqp10.message import AmqpMessage, Notes
from brokerproof.reference_broker.protocols.amqp10.performatives import Error
from brokerproof.reference_broker.protocols.amqp10.types import Symbol
from brokerproof.reference_broker.settings.settings import AddressSetting, Settings
from brokerproof.suites.units.drivers.broker import patient

texts = st.text(max_size=12)
octets = st.binary(max_size=60)
numbers = st.integers(0, 2**63)


# --- records --------------------------------------------------------------------------------------


PATH = "journal/000000007.journal"
SEED = records.seed(PATH)
HEAD = records.head(PATH)


def _file(payloads: list[bytes]) -> bytes:
    return HEAD + b"".join(
        records.frame(number, payload, SEED) for number, payload in enumerate(payloads, 1)
    )


@given(st.lists(octets, max_size=8), octets)
@patient
def test_what_was_written_is_read_and_a_tail_is_seen(payloads: list[bytes], tail: bytes) -> None:
    whole = _file(payloads)
    found = records.scan(whole + tail, PATH)
    assert list(found.payloads()) == list(enumerate(payloads, 1))
    assert (found.end, found.gaps, found.next) == (len(whole), [], len(payloads) + 1)


@given(st.lists(octets, min_size=1, max_size=8), st.data())
@patient
def test_a_cut_leaves_what_is_before_it(payloads: list[bytes], data: st.DataObject) -> None:
    whole = _file(payloads)
    cut = data.draw(st.integers(0, len(whole) - 1))
    found = records.scan(whole[:cut], PATH)
    kept = list(found.payloads())
    assert kept == list(enumerate(payloads, 1))[: len(kept)]
    if cut < len(HEAD):
        assert (found.end, found.detail) == (0, None)
    else:
        assert (
            len(_file(payloads[: len(kept) + 1]))
            > cut
            >= found.end
            == len(_file(payloads[: len(kept)]))
        )


@given(st.lists(octets, min_size=2, max_size=8), st.data())
@patient
def test_a_changed_octet_costs_the_record_it_is_in_and_no_other(
    payloads: list[bytes], data: st.DataObject
) -> None:
    whole = bytearray(_file(payloads))
    at = data.draw(st.integers(0, len(whole) - 1))
    whole[at] ^= data.draw(st.integers(1, 255))
    found = records.scan(bytes(whole), PATH)
    hit = next(number for number in range(len(payloads) + 1) if at < len(_file(payloads[:number])))
    kept = [record for record in enumerate(payloads, 1) if record[0] != hit]
    assert list(found.payloads()) == kept
    begin, end = len(_file(payloads[: hit - 1])) if hit else 0, len(_file(payloads[:hit]))
    assert found.gaps == ([] if hit == len(payloads) else [(begin, end, hit, hit + 1)])
    assert found.next == (hit if hit == len(payloads) else len(payloads) + 1)


# --- messages -------------------------------------------------------------------------------------

envelopes = st.builds(
    Envelope,
    texts,
    texts,
    st.sampled_from([None, *RoutingType]),
    st.lists(st.tuples(texts, texts), max_size=3).map(tuple),
    st.booleans(),
)


class LargeBodies:
    """Large bodies without files."""

    def find(self, id: int, octets: int) -> LargeBody:
        return LargeBody(self, id, octets)

    def read(self, body: LargeBody, begin: int, count: int, then: object) -> None:
        raise AssertionError("nothing is read here")

    def idle(self, body: LargeBody) -> None:
        """They have no files."""


BODIES = LargeBodies()
_FIELDS = ("address", "destination", "routing", "headers", "text")


def _same(one: Envelope, other: Envelope) -> bool:
    return all(getattr(one, each) == getattr(other, each) for each in _FIELDS)


@given(envelopes, numbers, octets, numbers)
@patient
def test_a_message_comes_back_with_everything(
    envelope: Envelope, number: int, body: bytes, arrived: int
) -> None:
    decoder = codec.Decoder(BODIES.find)
    written = codec.encode(Message(number, envelope, body, arrived))
    first, second = decoder.decode(written, 0), decoder.decode(b"ab" + written, 2)
    assert (first.number, first.body, first.arrived) == (number, body, arrived)
    assert _same(first.envelope, envelope)
    assert first.envelope is second.envelope, "equal envelopes are one again"


@given(envelopes, numbers, octets, st.none() | st.integers(0, 2**32 - 1), octets, octets)
@patient
def test_an_amqp_message_comes_back_with_its_sections(
    route: Envelope, number: int, prefix: bytes, ttl: int | None, annotations: bytes, bare: bytes
) -> None:
    written = codec.encode(AmqpMessage(number, route, 7, prefix, ttl, annotations, bare))
    found = codec.Decoder(BODIES.find).decode(written, 0)
    assert isinstance(found, AmqpMessage)
    assert (found.number, found.arrived, found.prefix, found.ttl) == (number, 7, prefix, ttl)
    assert (found.annotations, found.bare) == (annotations, bare)
    assert _same(found.route, route)


@given(envelopes, numbers, numbers, st.integers(0, 2**62), st.booleans(), octets)
@patient
def test_a_large_message_comes_back_with_where_its_body_is(
    envelope: Envelope, number: int, id: int, size: int, is_text: bool, bare: bytes
) -> None:
    body = LargeBody(BODIES, id, size)
    body.is_text = is_text
    plain = LargeMessage(number, envelope, LargeBodySlice(body), 5)
    sections = ((0x75, 0xB0, 0, size // 2), (0x75, 0xA0, size // 2, size))
    sent = LargeAmqpMessage(AmqpMessage(number, envelope, 7, b"", None, b"", bare), body, sections)
    for message in (plain, sent):
        written = codec.encode(message)
        found = codec.Decoder(LargeBodies().find).decode(b"ab" + written, 2)
        assert type(found) is type(message)
        assert found.large is not None
        assert (found.large.id, found.large.octets, found.large.is_text) == (id, size, is_text)
        assert codec.large(written, 0) == (id, size)
        if isinstance(found, LargeAmqpMessage):
            assert (found.sections, found.bare) == (sections, bare)
        else:
            assert len(found.body) == size
    assert codec.large(codec.encode(Message(number, envelope, bare, 5)), 0) is None


@given(st.binary(max_size=80))
@patient
def test_octets_that_are_no_message_are_refused(junk: bytes) -> None:
    decoder = codec.Decoder(BODIES.find)
    with contextlib.suppress(codec.BadOctets):
        decoder.decode(junk, 0)


def test_notes_and_failures_of_a_queue_that_gave_a_message_up_come_back() -> None:
    given_up = Entry(Message(1, Envelope("a", "a", None, (), False), b"x"), 1)
    given_up.earlier, given_up.failures, given_up.notes = 2, 3, Notes()
    given_up.notes.annotations = {Symbol("x-opt-a"): "b"}
    given_up.notes.rejected = Error(condition="c:d", description="why")
    payload = page.pack(given_up.message, (4, 5), True, 9, given_up)
    flags, unit, ids, at = page.peek(payload)
    message, found = page.unpack(payload, flags, at, codec.Decoder(BODIES.find))
    assert (unit, ids, message.body, page.number(payload, flags, at)) == (9, (4, 5), b"x", 1)
    assert found is not None
    assert found.earlier == 5
    assert (found.notes.annotations, found.notes.rejected) == (
        given_up.notes.annotations,
        given_up.notes.rejected,
    )


_ids = st.integers(0, 2**32 - 1)
_small = st.integers(0, 2**16 - 1)
_operations = st.one_of(
    st.builds(operations.Snapshot, numbers, numbers, _ids),
    st.builds(
        operations.QueueMade,
        *(
            _ids,
            texts,
            texts,
            st.sampled_from(RoutingType),
            st.booleans(),
            st.booleans(),
            st.none() | texts,
        ),
    ),
    st.builds(operations.QueueGone, _ids),
    st.builds(operations.Consumed, _ids, st.booleans()),
    st.builds(
        operations.Added, numbers, st.lists(_ids, max_size=3).map(tuple), _small, octets, octets
    ),
    st.builds(operations.Gone, _ids, st.lists(st.tuples(numbers, _ids), max_size=3).map(tuple)),
    st.builds(operations.Failed, _ids, numbers, _small),
    st.builds(
        operations.PageGone, _ids, _ids, st.lists(st.tuples(_ids, _ids), max_size=3).map(tuple)
    ),
    st.builds(operations.PageFailed, _ids, _ids, _ids, _small),
    st.builds(operations.UnitDone, numbers),
    st.builds(operations.Length, _ids, numbers),
    st.builds(operations.PageWritten, _ids, _ids, _ids, texts),
    st.builds(operations.PageOver, _ids, texts),
)


@given(st.lists(_operations, max_size=6))
@patient
def test_operations_come_back(some: list[operations.Operation]) -> None:
    payload = b"".join(each.encode() for each in some)
    assert list(operations.decode(payload)) == some
    if payload:
        with pytest.raises(operations.BadOperation):
            list(operations.decode(payload[:-1] if len(payload) > 1 else b"?"))


@given(st.sets(st.integers(0, 70)))
@patient
def test_runs_say_what_is_marked(marked: set[int]) -> None:
    kept = page.Page("f", 1, "a")
    for each in marked:
        kept.mark(3, each)
    said = {
        number
        for first, end in page.runs(bytes(kept.acked.get(3, b"")))
        for number in range(first, end)
    }
    assert said == marked
    assert {number for number in range(80) if kept.is_marked(3, number)} == marked


# --- files ----------------------------------------------------------------------------------------


@pytest.fixture
def disk(tmp_path: Path) -> Disk:
    return Disk({"paging": tmp_path / "p", "journal": tmp_path / "j" / "deep"}, tmp_path / "d")


def test_files_are_written_at_their_offsets_read_and_removed(disk: Disk, tmp_path: Path) -> None:
    writes = (
        Write("paging/a/1.page", 0, b"hello", False),
        Write("paging/a/1.page", 5, b" you", True),
    )
    assert disk.store(StoreFiles(1, (*writes, Write("journal/1", 0, b"x", True)))) == FilesStored(1)
    assert disk.load(LoadFile(2, "paging/a/1.page", 7)).data == b"hello y"
    assert list(disk.names()) == ["paging/a/1.page", "journal/1"]
    assert disk.store(StoreFiles(3, (), ("paging/a/1.page", "journal/none"))) == FilesStored(3)
    assert list(disk.names()) == ["journal/1"]
    assert not (tmp_path / "p" / "a").exists(), "the folder goes with its last page"
    missing = disk.load(LoadFile(4, "paging/a/1.page", 7))
    assert missing.problem == f"{tmp_path}/p/a/1.page: cannot be read (No such file or directory)"


def test_a_write_that_fails_says_so_and_what_comes_behind_is_not_done(
    disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(handle: int, data: bytes, at: int) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "pwrite", full)
    answer = disk.store(
        StoreFiles(1, (Write("journal/1", 0, b"x", True), Write("journal/2", 0, b"x", True)))
    )
    assert answer.full
    assert "cannot be written (No space left on device)" in str(answer.problem)
    assert list(disk.names()) == ["journal/1"]


def test_an_fsync_that_fails_is_no_want_of_space(
    disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(handle: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(os, "fdatasync", fails)
    answer = disk.store(StoreFiles(1, (Write("journal/1", 0, b"x", True),)))
    assert not answer.full
    assert "fsync failed (Input/output error)" in str(answer.problem)


def test_the_name_of_a_new_file_is_synced_with_its_first_fsync(
    disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[int] = []
    real = os.fsync
    monkeypatch.setattr(os, "fsync", lambda handle: (synced.append(handle), real(handle))[1])
    disk.store(StoreFiles(1, (Write("paging/a/1.page", 0, b"x", False),)))
    assert synced == []
    disk.store(StoreFiles(2, (Write("paging/a/1.page", 1, b"y", True),)))
    assert len(synced) == 2, "its folder, and the folder of that"
    disk.store(StoreFiles(3, (Write("paging/a/1.page", 2, b"z", True),)))
    assert len(synced) == 2


def test_a_write_in_pieces_is_finished(disk: Disk, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.pwrite
    monkeypatch.setattr(os, "pwrite", lambda handle, data, at: real(handle, bytes(data)[:3], at))
    assert disk.store(StoreFiles(1, (Write("journal/1", 2, b"0123456789", True),))) == FilesStored(
        1
    )
    assert disk.read("journal/1") == b"\0\0" + b"0123456789"


def test_one_broker_at_a_time_works_in_a_folder(tmp_path: Path) -> None:
    held = store_from_settings.claim(Settings(), tmp_path)
    with pytest.raises(
        store_from_settings.InUse,
        match="another broker works there; stop it, or name another folder",
    ):
        store_from_settings.claim(Settings(), tmp_path)
    held.release()
    store_from_settings.claim(Settings(), tmp_path).release()
    with pytest.raises(store_from_settings.InUse, match="cannot be used"):
        store_from_settings.claim(Settings(), Path(__file__))


def test_the_limits_are_those_of_the_address_settings(tmp_path: Path) -> None:
    setting = AddressSetting(
        "#", page_size_bytes=100, page_limit_bytes=7, page_full_policy=FullPolicy.DROP
    )
    store = store_from_settings.store(
        Settings(address_settings=(setting,)), Disk({"journal": tmp_path}, tmp_path)
    )
    limits = store.pages("a").limits
    assert (limits.page_size, limits.read_octets, limits.limit_octets, limits.fails) == (
        100,
        200,
        7,
        False,
    )
    assert store.journaled
    assert not store_from_settings.store(Settings()).journaled


@pytest.mark.parametrize("address", ["a", "a/b", "..", ".", "ä" * 300, "x" * 300, "", "a.b#c"])
def test_every_address_has_a_folder_of_its_own(address: str) -> None:
    store = store_from_settings.store(Settings())
    folder = store.pages(address)._folder
    first, name = folder.split("/")
    assert first == "paging"
    assert name not in ("", ".", "..")
    assert len(name) <= 200
    assert folder != store.pages(address + "1")._folder
