"""Records of a file: written records are read back, and damage loses only the damaged records."""

from hypothesis import given
from hypothesis import strategies as st

from brokerproof.reference_broker.persistence import records
from brokerproof.suites.units.drivers.broker import patient

binaries = st.binary(max_size=60)


PATH = "journal/000000007.journal"


SEED = records.seed(PATH)


HEAD = records.head(PATH)


def _file(payloads: list[bytes]) -> bytes:
    return HEAD + b"".join(
        records.frame(number, payload, SEED) for number, payload in enumerate(payloads, 1)
    )


@given(st.lists(binaries, max_size=8), binaries)
@patient
def test_what_was_written_is_read_and_a_tail_is_seen(payloads: list[bytes], tail: bytes) -> None:
    whole = _file(payloads)
    found = records.scan(whole + tail, PATH)
    assert list(found.payloads()) == list(enumerate(payloads, 1))
    assert (found.end, found.gaps, found.next) == (len(whole), [], len(payloads) + 1)


@given(st.lists(binaries, min_size=1, max_size=8), st.data())
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


@given(st.lists(binaries, min_size=2, max_size=8), st.data())
@patient
def test_a_changed_byte_costs_the_record_it_is_in_and_no_other(
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


@given(st.lists(binaries, min_size=3, max_size=8), st.data())
@patient
def test_a_length_that_leads_to_a_later_record_costs_none_between(
    payloads: list[bytes], data: st.DataObject
) -> None:
    """A record begins where the length points, but not the next one: the length itself was
    damaged."""
    hit = data.draw(st.integers(1, len(payloads) - 2))
    later = data.draw(st.integers(hit + 2, len(payloads)))
    whole = bytearray(_file(payloads))
    begin = len(_file(payloads[: hit - 1]))
    length = len(_file(payloads[: later - 1])) - begin - records.HEAD.size
    whole[begin + 6 : begin + 10] = length.to_bytes(4)
    found = records.scan(bytes(whole), PATH)
    assert [number for number, _ in found.payloads()] == [
        number for number in range(1, len(payloads) + 1) if number != hit
    ]
