"""The list of capabilities: complete, documented, and strict about names."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

import brokerproof
from brokerproof.harness.catalogue import capabilities, profiles, tables
from brokerproof.harness.catalogue.tables import BadData
from brokerproof.harness.commands.cli import cli
from brokerproof.harness.targets import shipped_targets, target_file
from brokerproof.harness.targets.target_file import BadTarget


def test_all_that_profiles_and_target_files_name_is_listed() -> None:
    for name in profiles.names():
        capabilities.check(profiles.load(name).capabilities)
    for path in shipped_targets.paths().values():
        values, _ = tables.read(path)
        for key in ("add_capabilities", "remove_capabilities"):
            capabilities.check(values.get(key, ()))


def test_a_name_that_is_not_listed_is_refused_with_the_nearest_one() -> None:
    with pytest.raises(capabilities.UnknownCapability) as refused:
        capabilities.check(["stomp", "transaction"])
    assert str(refused.value).startswith(
        "no capability has the name 'transaction'; did you mean 'transactions'?"
    )
    capabilities.check(["x-of-my-own"])


@pytest.mark.parametrize("key", ["add_capabilities", "remove_capabilities"])
def test_a_target_file_with_an_unknown_name_is_refused(tmp_path: Path, key: str) -> None:
    file = tmp_path / "mine.target.toml"
    file.write_text(
        'kind = "address"\nprofile = "stomp"\n'
        f'{key} = ["nak"]\n[endpoints]\nstomp = "localhost:61613"\n'
    )
    with pytest.raises(BadTarget, match=f"{key}: no capability has the name 'nak'; did you mean"):
        target_file.load(str(file))


def test_a_profile_with_an_unknown_name_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text('description = "d"\ncapabilities = ["stompp"]\n[parameters]\n')
    with pytest.raises(BadData, match="did you mean 'stomp'"):
        profiles.load(str(file))


def test_a_skip_says_what_to_configure() -> None:
    sentence = capabilities.missing({"admin", "x-mine"}, {})
    assert sentence == (
        "the target has no admin (for artemis: give the login the permission manage on the"
        " management address); no x-mine"
    )
    assert "(name it)" in capabilities.missing({"admin"}, {"admin": "name it"})


def test_a_broker_need_not_be_configured_for_what_another_family_is_judged_by() -> None:
    assert "(like = " in capabilities.missing({"queue-semantics"}, {}, "artemis")
    assert "(for artemis: like = " in capabilities.missing({"queue-semantics"}, {}, "any")
    sentence = capabilities.missing({"queue-semantics", "amqp-transactions"}, {}, "rabbitmq")
    assert sentence == (
        "the target has no amqp-transactions (list it in add_capabilities if the broker offers"
        " them); no queue-semantics (nothing: only artemis is judged by it)"
    )


def test_what_belongs_to_one_family_no_target_of_another_has() -> None:
    for name in shipped_targets.paths():
        identity = target_file.load(name).identity
        families = {capabilities.listed()[has].family for has in identity.capabilities} - {""}
        assert families <= {identity.profile.name}, name


def test_the_reference_page_is_the_list() -> None:
    root = Path(brokerproof.__file__).resolve().parent.parent
    page = (root / "docs" / "reference" / "capabilities.md").read_text("utf-8")
    rows = [line for line in page.splitlines() if line.startswith("| `")]
    assert rows == [
        f"| `{capability.name}` | {capability.meaning} | {capability.configure} |"
        for capability in capabilities.listed().values()
    ]


def test_the_command_lists_them_and_says_which_a_target_has() -> None:
    done = CliRunner().invoke(cli, ["capabilities", "--target", "rabbitmq", "--json"])
    has = {row["name"]: row["has"] for row in json.loads(done.output)}
    assert (has["amqp091"], has["connection-ttl"]) == (True, False)
    assert set(has) == set(capabilities.listed())
    text = CliRunner().invoke(cli, ["capabilities"]).output
    assert all(name in text for name in has)
    assert "(has it" not in text
