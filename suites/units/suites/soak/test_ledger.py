"""The judge of the soak test and of random histories reports each possible mistake, and nothing
else."""

import pytest

from brokerproof.suites.soak.ledger import Key, Ledger

A, B, C = (Key(1, number, 0) for number in range(3))


def _ledger(*keys: Key) -> Ledger:
    ledger = Ledger()
    for key in keys:
        ledger.sent(["q"], key)
        ledger.receipted(["q"], key)
    return ledger


def _found(ledger: Ledger, *keys: Key, redelivered: bool = False) -> list[str]:
    ledger.found("q", [(key, redelivered) for key in keys])
    return ledger.wrong


def test_what_is_as_it_should_be() -> None:
    ledger = _ledger(A, B)
    ledger.sent(["q"], C)
    assert _found(ledger, A, B) == [], "C has no receipt: it may be there or not"
    ledger.ack_asked("q", A)
    assert _found(ledger, B, redelivered=True) == [], (
        "A was being acknowledged: it may be gone or not"
    )


@pytest.mark.parametrize(
    ("there", "sentence"),
    [
        ([A, C], "had its receipt and is lost"),
        ([A, A, B, C], "are there twice"),
        ([B, A, C], "is after number 1 of the same producer"),
        ([A, B, C, Key(2, 0, 0)], "nobody sent it"),
    ],
)
def test_what_is_wrong_with_what_is_there(there: list[Key], sentence: str) -> None:
    (said,) = _found(_ledger(A, B, C), *there)
    assert sentence in said


def test_what_was_acknowledged_or_seen() -> None:
    ledger = _ledger(A, B)
    ledger.delivered("q", A, False)
    ledger.ack_asked("q", A)
    ledger.acked("q", A)
    assert "its acknowledgement had a receipt" in _found(ledger, A, B, redelivered=True)[0]
    ledger = _ledger(A, B)
    ledger.delivered("q", A, False)
    assert "without the mark" in _found(ledger, A, B)[0]
    ledger = _ledger(A)
    ledger.delivered("q", A, False)
    ledger.delivered("q", A, False)
    assert "without the mark" in ledger.wrong[0]
    ledger.delivered("q", B, False)
    assert "nobody sent it" in ledger.wrong[1]


def test_half_a_transaction() -> None:
    half, other = Key(1, 5, 3), Key(1, 6, 3)
    ledger = Ledger()
    for key in (half, other):
        ledger.sent(["q"], key)
    assert "1 of 2 messages of transaction 3" in _found(ledger, half)[0]


def test_a_key_is_in_the_body() -> None:
    assert Key.of(C.body(3000)) == C
    assert len(C.body(3000)) == 3000


def test_what_was_delivered_and_not_acknowledged_is_there() -> None:
    ledger = Ledger()
    ledger.sent(["q"], A)
    ledger.delivered("q", A, False)
    (sentence,) = _found(ledger)
    assert "was delivered, not acknowledged, and is lost" in sentence
