"""A store created from settings."""

from pathlib import Path

import pytest

from brokerproof.harness.model.enums import FullPolicy
from brokerproof.reference_broker.persistence import store_from_settings
from brokerproof.reference_broker.persistence.disk import Disk
from brokerproof.reference_broker.settings.settings import AddressSetting, Settings


def test_the_limits_are_those_of_the_address_settings(tmp_path: Path) -> None:
    setting = AddressSetting(
        "#", page_size_bytes=100, page_limit_bytes=7, page_full_policy=FullPolicy.DROP
    )
    store = store_from_settings.store(
        Settings(address_settings=(setting,)), Disk({"journal": tmp_path}, tmp_path)
    )
    limits = store.pages.open("a").limits
    assert limits.page_size == 100
    assert limits.read_bytes == 200
    assert limits.limit_bytes == 7
    assert limits.fails is False
    assert store.journaled
    assert not store_from_settings.store(Settings()).journaled


@pytest.mark.parametrize("address", ["a", "a/b", "..", ".", "ä" * 300, "x" * 300, "", "a.b#c"])
def test_every_address_has_a_folder_of_its_own(address: str) -> None:
    store = store_from_settings.store(Settings())
    folder = store.pages.open(address)._folder
    first, name = folder.split("/")
    assert first == "paging"
    assert name not in ("", ".", "..")
    assert len(name) <= 200
    assert folder != store.pages.open(address + "1")._folder
