"""Outcomes of third-party test suites: reading and comparing them."""

from pathlib import Path

from brokerproof.suites.interop.foreign_suites import DIFFERENCES, Suite, from_junit, problems_of

SUITE = Suite("amqplib", Path(), (), from_junit, least=1)
LISTED = next(iter(DIFFERENCES)).removeprefix("amqplib ")


def test_outcomes_are_named_by_suites_class_and_test(tmp_path: Path) -> None:
    path = tmp_path / "junit.xml"
    path.write_text(
        '<testsuites><testsuite name="A"><testsuite name="B"><testcase name="x" classname="test"/>'
        '</testsuite></testsuite><testsuite name="pytest"><testcase name="y" classname="t.T">'
        '<failure/></testcase><testcase name="z" classname="t.T"><skipped/></testcase></testsuite>'
        "</testsuites>"
    )
    assert from_junit(path) == {"A > B > x": "passed", "t.T > y": "failed", "t.T > z": "skipped"}


def test_a_difference_that_is_not_listed_is_a_problem() -> None:
    rabbitmq = {"x": "passed", LISTED: "passed"}
    assert problems_of(SUITE, {"x": "passed", LISTED: "failed"}, rabbitmq) == []
    assert len(problems_of(SUITE, {"x": "failed", LISTED: "failed"}, rabbitmq)) == 1
    assert len(problems_of(SUITE, {LISTED: "failed"}, rabbitmq)) == 1, "x was not run"


def test_a_listed_difference_that_is_gone_is_a_problem() -> None:
    same = {LISTED: "passed"}
    assert len(problems_of(SUITE, same, same)) == 1


def test_a_suite_that_did_not_run_is_a_problem() -> None:
    assert problems_of(SUITE, {}, {}) == ["amqplib: 0 tests pass on RabbitMQ, not 1"]
