"""Legal styles of the reference broker, judged by the specifications alone: none is accused.

With BROKERPROOF_STYLES_PART=1 every case of the protocol runs, otherwise every fortieth;
BROKERPROOF_STYLES_SEED draws other examples.
"""

import os

import pytest

from brokerproof.harness.model.verdicts import Verdict
from brokerproof.suites.mutation import all_mutants
from brokerproof.suites.mutation.styles.amqp091 import amqp091
from brokerproof.suites.mutation.styles.amqp10 import amqp10
from brokerproof.suites.mutation.styles.stranger import judge

SEED = int(os.environ.get("BROKERPROOF_STYLES_SEED", "1"))
PART = int(os.environ.get("BROKERPROOF_STYLES_PART", "40"))
STYLES = {style.name: style for group in (amqp10, amqp091) for style in group.mutants}


@pytest.mark.parametrize("name", STYLES)
def test_no_legal_style_is_accused(name: str) -> None:
    results = list(judge(STYLES[name], SEED, PART))
    # a WARN names a recommendation that the style does not follow
    wrong = (Verdict.FAIL, Verdict.ERROR, Verdict.INCONCLUSIVE)
    assert not [result.detail for result, _ in results if result.verdict in wrong]
    assert PART > 1 or any(reached for _, reached in results)


def test_a_broker_that_drops_what_a_lost_consumer_held_has_its_histories_judged() -> None:
    results = [
        result
        for result, _ in judge(STYLES["legal-amqp10.rejected-by-default"], SEED, about="history")
    ]
    assert [result.verdict for result in results] == [Verdict.NOTE]


def test_a_fault_is_accused_on_a_stranger() -> None:
    mutant = all_mutants.named("amqp-settlement.everything-before-too")
    assert any(result.verdict is Verdict.FAIL for result, _ in judge(mutant))
