"""The list of capabilities: complete, documented, and strict about names."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

import brokerproof
from brokerproof.harness.cases import case_index
from brokerproof.harness.catalogue import capabilities, profiles, tables
from brokerproof.harness.catalogue.tables import BadData
from brokerproof.harness.commands.cli import cli
from brokerproof.harness.targets import shipped_targets, target_file
from brokerproof.harness.targets.target import Target
from brokerproof.harness.targets.target_file import BadTarget
from brokerproof.suites.units.drivers import toml_tables

TABLES = toml_tables.beside(__file__)


def test_all_that_profiles_and_target_files_name_is_listed() -> None:
    for name in profiles.names():
        capabilities.check(profiles.load(name).capabilities)
        capabilities.check(profiles.load(name).not_offered)
    for path in shipped_targets.paths().values():
        values, _ = tables.read(path)
        for key in ("add_capabilities", "not_offered", "judged_on"):
            capabilities.check(values.get(key, ()))


def test_a_name_that_is_not_listed_is_refused_with_the_nearest_one() -> None:
    with pytest.raises(capabilities.UnknownCapability) as refused:
        capabilities.check(["stomp", "transaction"])
    assert str(refused.value).startswith(
        "there is no capability 'transaction'; did you mean 'transactions'?"
    )
    capabilities.check(["x-of-my-own"])


def own_target(tmp_path: Path, more: str, like: str = "rabbitmq") -> Target:
    file = tmp_path / "mine.target.toml"
    file.write_text(
        f'kind = "address"\nlike = "{like}"\n{more}\n[endpoints]\n'
        'stomp = "localhost:61613"\namqp = "localhost:5672"\n'
    )
    return target_file.load(str(file))


@pytest.mark.parametrize(("lines", "sentence"), TABLES["targets"])
def test_a_target_file_with_wrong_capabilities_is_refused(
    tmp_path: Path, lines: str, sentence: str
) -> None:
    with pytest.raises(BadTarget, match=rf"mine\.target\.toml: {sentence}"):
        own_target(tmp_path, lines)


def test_a_capability_that_is_not_offered_has_its_reason(tmp_path: Path) -> None:
    identity = own_target(
        tmp_path,
        'add_capabilities = ["amqp-transactions"]\n'
        'not_offered = { nack = "our manual, page 3" }\njudged_on = { multicast = "rabbitmq" }',
    ).identity
    assert not {"nack", "multicast"} & identity.capabilities
    assert identity.absent["nack"] == "not offered: our manual, page 3"
    assert identity.judged_on == {"multicast": "rabbitmq"}
    assert identity.absent["multicast"] == "judged on the target rabbitmq"
    # A capability that this broker has and its family lacks is offered; the others keep the
    # family's reason.
    assert "amqp-transactions" in identity.capabilities
    assert "amqp-transactions" not in identity.absent
    assert identity.absent["amqp-dynamic"].startswith("not offered: rabbitmq.com/docs/amqp")
    found = capabilities.missing({"nack"}, identity.absent, "rabbitmq")
    assert found == "the target has no nack (not offered: our manual, page 3)"


def test_a_target_with_a_scope_judges_only_the_cases_that_need_it(tmp_path: Path) -> None:
    identity = own_target(
        tmp_path,
        'add_capabilities = ["x-tiny-store", "x-cluster"]\nscope = ["x-tiny-store"]\n'
        'others_judged_on = "rabbitmq"',
    ).identity
    assert identity.skip_reason(frozenset({"x-tiny-store", "stomp-1.2"}), "a.case") == ""
    for needs in (frozenset[str](), frozenset({"stomp-1.2"}), frozenset({"x-cluster"})):
        found = identity.skip_reason(needs, "a.case")
        assert found == "judged on the target rabbitmq: mine is for cases that need x-tiny-store"
    lacking = identity.skip_reason(frozenset({"x-tiny-store", "selectors"}), "a.case")
    assert lacking.startswith("the target has no selectors")


def test_a_target_may_name_the_cases_that_it_judges(tmp_path: Path) -> None:
    identity = own_target(
        tmp_path, 'cases = ["a.case[1.2]"]\nothers_judged_on = "rabbitmq"'
    ).identity
    assert identity.skip_reason(frozenset({"stomp-1.2"}), "a.case[1.2]") == ""
    found = identity.skip_reason(frozenset({"stomp-1.2"}), "a.case[1.1]")
    assert found == "judged on the target rabbitmq: mine is for the cases that its file names"
    lacking = identity.skip_reason(frozenset({"selectors"}), "a.case[1.2]")
    assert lacking.startswith("the target has no selectors")


def test_a_release_that_is_asked_for_is_judged_by_all_cases() -> None:
    """They are not limited to the cases that the target file names."""
    assert target_file.load("artemis-history").identity.cases
    assert not target_file.load("artemis-history@2.10.1").identity.cases


def test_shipped_targets_name_cases_that_exist() -> None:
    known = {case.id for case in case_index.load().cases}
    named = [
        (name, case)
        for name in shipped_targets.paths()
        for case in target_file.load(name).identity.cases
    ]
    assert named
    assert not [entry for entry in named if entry[1] not in known]


def test_a_broker_of_a_user_has_advice_where_a_shipped_one_names_another_target(
    tmp_path: Path,
) -> None:
    found = target_file.load("activemq").identity.absent["producer-flow-control"]
    assert found == "judged on the target activemq-flow"
    own = own_target(tmp_path, "", like="activemq").identity
    assert "producer-flow-control" not in own.absent


def test_capabilities_of_a_protocol_that_is_not_offered_share_its_reason() -> None:
    absent = target_file.load("proton-c").identity.absent
    assert absent["heart-beat"] == absent["stomp"]
    assert absent["stomp"] == "not offered: the library speaks only AMQP 1.0"


def test_a_profile_with_an_unknown_name_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text('description = "d"\ncapabilities = ["stompp"]\n[parameters]\n')
    with pytest.raises(BadData, match="did you mean 'stomp'"):
        profiles.load(str(file))


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ('nak = "why"', "not_offered: there is no capability 'nak'; did you mean 'nack'"),
        ('nack = ""', "not_offered: nack has no reason; write why the broker lacks it"),
        (
            'stomp = "why"',
            "not_offered: stomp is also offered; remove it from one of the two lists",
        ),
    ],
)
def test_a_profile_with_a_wrong_reason_is_refused(tmp_path: Path, line: str, sentence: str) -> None:
    file = tmp_path / "mine.toml"
    file.write_text(
        f'description = "d"\ncapabilities = ["stomp"]\n[not_offered]\n{line}\n[parameters]\n'
    )
    with pytest.raises(BadData, match=rf"mine\.toml: {sentence}"):
        profiles.load(str(file))


def test_a_skip_says_what_to_configure() -> None:
    sentence = capabilities.missing({"admin", "x-mine"}, {})
    assert sentence == (
        "the target has no admin (only a manual describes it: name one with like = NAME); no x-mine"
    )
    assert "(name it)" in capabilities.missing({"admin"}, {"admin": "name it"})


def test_a_broker_need_not_be_configured_for_what_another_family_is_judged_by() -> None:
    assert "(like = " in capabilities.missing({"queue-semantics"}, {}, "artemis")
    assert "artemis" not in capabilities.missing({"queue-semantics"}, {}, "any")
    sentence = capabilities.missing({"queue-semantics", "amqp-transactions"}, {}, "rabbitmq")
    assert sentence == (
        "the target has no amqp-transactions (list it in add_capabilities if the broker offers"
        " them); no queue-semantics (only artemis is judged by it)"
    )


def test_what_belongs_to_one_family_no_target_of_another_has() -> None:
    for name in shipped_targets.paths():
        identity = target_file.load(name).identity
        families = {capabilities.listed()[has].family for has in identity.capabilities} - {""}
        assert families <= {identity.profile.name}, name


def test_the_reference_page_is_the_list() -> None:
    root = Path(brokerproof.__file__).resolve().parent.parent
    page = (root / "docs" / "reference" / "capabilities.md").read_text("utf-8")
    rows = [line for line in page.splitlines() if line.startswith("* `")]
    assert rows == [
        f"* `{capability.name}`: {capability.meaning}"
        for capability in capabilities.listed().values()
    ]


def test_the_command_lists_them_and_says_which_a_target_has() -> None:
    done = CliRunner().invoke(cli, ["capabilities", "--target", "rabbitmq", "--json"])
    has = {row["name"]: row["has"] for row in json.loads(done.output)}
    assert (has["amqp091"], has["connection-ttl"]) == (True, False)
    assert set(has) == set(capabilities.listed())
    reasons = {row["name"]: row["reason"] for row in json.loads(done.output)}
    found = reasons["amqp-transactions"]
    assert found == "not offered: rabbitmq.com/docs/amqp, Limitations: transactions"
    assert reasons["amqp091"] == ""
    text = CliRunner().invoke(cli, ["capabilities", "--target", "rabbitmq"]).output
    assert "It is not offered: rabbitmq.com/docs/amqp, Limitations: transactions." in text
    text = CliRunner().invoke(cli, ["capabilities"]).output
    assert all(name in text for name in has)
    assert "(has it" not in text
