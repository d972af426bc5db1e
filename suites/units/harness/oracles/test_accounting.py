"""The accounting oracle reports every kind of irregularity under its name, and nothing else."""

import pytest

from brokerproof.harness.oracles.accounting import (
    ILLEGAL,
    Attempted,
    Books,
    Confirmed,
    Delivered,
    Excused,
    Fact,
    Ledger,
    Refused,
    Returned,
    Settled,
    Withdrawn,
    account,
)

A, B, C = b"a", b"b", b"c"


def sent(*keys: bytes, producer: str = "p") -> list[Fact]:
    return [fact for key in keys for fact in (Attempted(key, producer), Confirmed(key))]


def got(consumer: str, *keys: bytes, marked: bool = False) -> list[Fact]:
    return [Delivered(key, consumer, marked) for key in keys]


def only(books: Books, **expected: tuple[bytes, ...]) -> None:
    assert {name: getattr(books, name) for name in ILLEGAL if getattr(books, name)} == expected


def test_a_queue_that_works_balances() -> None:
    books = account([*sent(A, B, C), *got("x", A, B), Settled((A, B)), *got("y", C), Settled((C,))])
    assert books.balanced
    assert (books.attempted, books.confirmed, books.delivered) == (3, 3, 3)


def test_books_of_nothing_balance() -> None:
    assert account([]).balanced


@pytest.mark.parametrize(
    ("facts", "name", "keys"),
    [
        ([*got("x", A)], "phantom", (A,)),
        ([Attempted(A, "p"), Withdrawn(A), *got("x", A)], "phantom", (A,)),
        ([*sent(A), *got("x", A), *got("y", A)], "shared", (A,)),
        ([*sent(A), *got("x", A), *got("x", A)], "shared", (A,)),
        ([*sent(A), *got("x", A), Settled((A,)), *got("y", A, marked=True)], "revived", (A,)),
        ([*sent(A, B), *got("x", B)], "lost", (A,)),
        ([*sent(A), *got("x", A), Returned("x", failed=True)], "abandoned", (A,)),
        ([*sent(A, B), *got("x", B, A)], "disordered", (A,)),
        ([*sent(A), *got("x", A), Returned("x", failed=True), *got("y", A)], "unmarked", (A,)),
        ([*sent(A), *got("x", A), Refused((A,)), *got("y", A)], "unmarked", (A,)),
        ([*sent(A, B), *got("x", A), Refused((A,)), *sent(C), *got("y", C, B)], "disordered", (B,)),
        ([*sent(A), *got("x", A, marked=True)], "mismarked", (A,)),
        (
            [
                *sent(A, B),
                *got("x", A, B),
                Returned("x", failed=True),
                *got("y", B, A, marked=True),
            ],
            "disordered",
            (A,),
        ),
    ],
)
def test_what_is_wrong_has_one_name(facts: list[Fact], name: str, keys: tuple[bytes, ...]) -> None:
    books = account(facts)
    only(books, **{name: keys})
    assert name in str(books)
    assert not books.balanced


@pytest.mark.parametrize(
    "facts",
    [
        # never confirmed: may or may not arrive
        [Attempted(A, "p")],
        [Attempted(A, "p"), *got("x", A)],
        # two producers, and two consumers, have no common order
        [*sent(A, producer="p"), *sent(B, producer="q"), *got("x", B, A)],
        [*sent(A, B), *got("x", B), *got("y", A)],
        # refused: may be dropped
        [*sent(A), *got("x", A), Refused((A,))],
        # an orderly close: it may be marked or not
        [*sent(A), *got("x", A), Returned("x", failed=False), *got("y", A)],
        [*sent(A), *got("x", A), Returned("x", failed=False), *got("y", A, marked=True)],
        # a returned message arrives after those that the other consumer already had
        [
            *sent(A, B),
            *got("x", A),
            *got("y", B),
            Returned("x", failed=True),
            *got("y", A, marked=True),
        ],
        # b was in flight to x when x was lost: y gets it late and marked, although no consumer had
        # received it
        [
            *sent(A, B, C),
            *got("x", A),
            *got("y", C),
            Returned("x", failed=True),
            *got("y", A, B, marked=True),
        ],
        # x was lost but the broker had not noticed: it sent b to x first, so b arrives late and
        # marked
        [
            *sent(A),
            *got("x", A),
            Returned("x", failed=True),
            *sent(B, C),
            *got("y", C),
            *got("y", B, A, marked=True),
        ],
        # a message that x still holds at the end was delivered
        [*sent(A), *got("x", A)],
        # aborted and never seen
        [Attempted(A, "p"), Withdrawn(A)],
    ],
)
def test_what_a_broker_is_free_to_do_is_not_noticed(facts: list[Fact]) -> None:
    only(account(facts))


def test_what_came_without_confirmation_is_recovered() -> None:
    assert account([Attempted(A, "p"), *got("x", A)]).recovered == (A,)
    assert account([*sent(A), *got("x", A)]).recovered == ()


def test_returned_messages_go_out_again_in_their_order_together() -> None:
    before = [*sent(A, B, C), *got("x", A, B, C), Returned("x", failed=True)]
    only(account([*before, *got("y", A, B, C, marked=True)]))
    only(account([*before, *got("y", A, C, B, marked=True)]), disordered=(B,))


def test_the_doubt_about_a_lost_consumer_ends_when_another_gets_what_it_held() -> None:
    before = [
        *sent(A),
        *got("x", A),
        Returned("x", failed=True),
        *got("y", A, marked=True),
        *sent(B, C),
    ]
    only(account([*before, *got("y", C, B)]), disordered=(B,))
    only(account([*before, *got("y", B, C, marked=True)]), mismarked=(B, C))


def test_an_unsubscribe_that_was_confirmed_leaves_no_doubt() -> None:
    before = [*sent(A, B, C), *got("x", A), Returned("x", noticed=True)]
    only(account([*before, *got("y", A, B, C)]))
    only(account([*before, *got("y", A, C, B)]), disordered=(B,))
    only(
        account([*before, *got("y", A, C), *got("y", B, marked=True)]),
        disordered=(B,),
        mismarked=(B,),
    )


def test_what_came_back_may_have_been_with_a_second_consumer_that_left_unnoticed() -> None:
    lost = [*got("x", A, B, C), Returned("x", failed=True)]
    second = [*lost, *got("y", A, marked=True), Returned("y", failed=True)]
    assert account([*sent(A, B, C), *second, *got("z", C, A, B, marked=True)]).balanced
    only(account([*sent(A, B, C), *lost, *got("z", C, A, B, marked=True)]), disordered=(A, B))


def test_a_ledger_knows_what_is_still_to_come_and_who_holds_what() -> None:
    ledger = Ledger()
    for fact in [*sent(A, B), Attempted(C, "p"), *got("x", A)]:
        ledger.update(fact)
    assert ledger.must_come() == {B}
    assert ledger.held_by("x") == [A]
    ledger.update(Returned("x", failed=True))
    assert ledger.must_come() == {A, B}


def test_a_key_that_is_sent_twice_is_refused() -> None:
    with pytest.raises(ValueError, match=r"b'a' was sent twice"):
        account([*sent(A), *sent(A)])


def test_what_has_a_reason_to_be_missing_is_not_lost() -> None:
    assert account([*sent(A, B), Excused((A,)), *got("x", B)]).balanced
    held = [*sent(A), *got("x", A), Excused((A,)), Returned("x", noticed=True)]
    assert account(held).balanced


def test_a_protocol_without_a_mark_owes_none() -> None:
    back = Returned("x", failed=True)
    unmarked = [Delivered(A, "x", None), back, Delivered(A, "y", None)]
    assert account([*sent(A), *unmarked]).balanced


def test_order_is_owed_after_a_return_only_where_it_is_promised() -> None:
    facts = [*sent(A, B), *got("x", A, B), Returned("x", noticed=True), *got("y", B, A)]
    only(account(facts), disordered=(A,))
    ledger = Ledger(order_after_return=False)
    for fact in facts:
        ledger.update(fact)
    assert ledger.close().balanced


def test_long_books_name_a_few_keys() -> None:
    keys = [b"%d" % number for number in range(1000)]
    assert len(str(account(sent(*keys)))) < 200
    assert str(account(sent(*keys))).endswith("lost 0, 1, … 999 (1000)")
