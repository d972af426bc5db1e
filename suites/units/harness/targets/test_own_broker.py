"""Targets for a broker that we did not configure: URLs, ``like``, endpoints and addresses."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from brokerproof.harness.cases.bench import Bench
from brokerproof.harness.cases.case import Case
from brokerproof.harness.cases.execution import Call, Run, execute
from brokerproof.harness.catalogue import requirements
from brokerproof.harness.model.verdicts import Verdict
from brokerproof.harness.targets import full_addresses, target_file, target_url
from brokerproof.harness.targets.external.target import AddressTarget
from brokerproof.harness.targets.full_addresses import SHIPPED, BadAddresses, FullAddresses
from brokerproof.harness.targets.target_file import BadTarget
from brokerproof.harness.trace.recorder import Recorder

FILE = 'kind = "address"\nlike = "{like}"\n[endpoints]\nstomp = "h:1"\namqp = "h:2"\n{more}'


def file(folder: Path, like: str = "artemis", more: str = "") -> AddressTarget:
    path = folder / "mine.target.toml"
    path.write_text(FILE.format(like=like, more=more))
    target = target_file.load(str(path))
    assert isinstance(target, AddressTarget)
    return target


@pytest.mark.parametrize("family", ["artemis", "rabbitmq", "activemq"])
def test_url_file_and_shipped_target_have_the_same_family(tmp_path: Path, family: str) -> None:
    shipped = target_file.load(family).identity
    by_file = file(tmp_path, family).identity
    by_url = target_file.load(f"stomp://h:1?like={family},amqp://h:2").identity
    for own in (by_file, by_url):
        assert own.profile == shipped.profile
        assert (own.deviations, own.manual) == (shipped.deviations, shipped.manual)
        assert own.login is None  # only the fixture has it
        assert own.capabilities < shipped.capabilities | {"x"}
        assert not {"tls-fixtures", "address-full"} & own.capabilities
    assert by_file.capabilities == by_url.capabilities


def test_a_profile_of_a_family_brings_its_exclusions(tmp_path: Path) -> None:
    path = tmp_path / "mine.target.toml"
    path.write_text('kind = "address"\nprofile = "artemis"\nendpoints = { amqp = "h:1" }\n')
    identity = target_file.load(str(path)).identity
    assert identity.deviations == target_file.load("artemis").identity.deviations


def test_what_a_file_says_itself_comes_first(tmp_path: Path) -> None:
    more = (
        'add_capabilities = ["x-mine"]\nnot_offered = { selectors = "switched off" }\n'
        'deviations = "mine.toml"\nparameters = { connection_ttl_max_ms = 5 }\n'
    )
    path = tmp_path / "mine.target.toml"
    path.write_text(more + FILE.format(like="artemis", more=""))
    identity = target_file.load(str(path)).identity
    assert "x-mine" in identity.capabilities
    assert "selectors" not in identity.capabilities
    assert identity.deviations == tmp_path / "mine.toml"
    assert identity.profile.parameters["connection_ttl_max_ms"] == 5
    assert identity.profile.parameters["connection_ttl_min_ms"] == 1000


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("stomp://h:1?like=artemsi", "like is 'artemsi'; did you mean 'artemis'?"),
        ("stomp://h:1?profile=artemsi", "there is no profile 'artemsi'; did you mean"),
        ("stomp://h:1?connection_ttl=5", "parameters names 'connection_ttl', which"),
        ("stomp://h:1,stomp://h:2", "two endpoints are called 'stomp'; write NAME=stomp://h:2"),
        ("stomp://h:1,amqp://me:pass@h:2", "put the login into the first URL only"),
        ("stomp://h:1,amqp://h", "should look like"),
        ("ftp://h:1", "should look like stomp://HOST:PORT"),
    ],
)
def test_wrong_urls_are_one_sentence(text: str, sentence: str) -> None:
    with pytest.raises(BadTarget, match=sentence.replace("?", r"\?")):
        target_file.load(text)


def test_endpoints_and_like_are_added_to_an_address() -> None:
    joined = target_url.joined("h:1", ("amqp=h:2", "ttl-2000=h:3", "ws://h:4/ws"), "artemis")
    assert joined == "stomp://h:1?like=artemis,amqp=amqp://h:2,ttl-2000=stomp://h:3,ws://h:4/ws"
    assert target_url.joined("artemis", ()) == "artemis"
    values = target_url.values(joined)
    assert list(values["endpoints"]) == ["stomp", "amqp", "ttl-2000", "web_stomp"]
    assert values["endpoints"]["web_stomp"].path == "/ws"


def test_an_acceptor_of_the_printed_configuration_has_its_parameters() -> None:
    target = target_file.load("stomp://h:1?like=artemis,ttl-2000=stomp://h:2")
    assert isinstance(target, AddressTarget)
    target.endpoints = {"stomp": ("h", 1), "ttl-2000": ("h", 2)}
    known = target.acceptors()
    assert known["ttl-2000"]["connection_ttl_ms"] == 2000
    # The name of an acceptor does not show settings of the whole broker.
    assert known["ttl-2000"]["connection_ttl_check_interval_ms"] == 2000
    assert "connection_ttl_ms" not in known["stomp"]


@pytest.mark.parametrize(
    ("text", "has", "lacks"),
    [
        ("amqp://h:1", {"amqp", "amqp091"}, {"stomp", "nack", "websocket"}),
        ("amqp://h:1?like=artemis", {"amqp", "amqp-credit"}, {"stomp", "consumer-window"}),
        ("stomp://h:1?like=rabbitmq", {"stomp"}, {"amqp", "amqp091", "management-api"}),
        ("stomp://h:1?like=rabbitmq,http://h:2", {"management-api"}, {"websocket"}),
        ("ws://h:1/ws", {"stomp", "websocket"}, {"amqp"}),
    ],
)
def test_a_target_has_what_its_endpoints_speak(text: str, has: set[str], lacks: set[str]) -> None:
    capabilities = target_file.load(text).identity.capabilities
    assert has <= capabilities
    assert not lacks & capabilities


def test_addresses_have_prefixes_and_one_limit(tmp_path: Path) -> None:
    more = '[addresses]\nblock = "a.b."\nlimited = "few."\nmax_size_bytes = 30000\n'
    identity = file(tmp_path, more=more).identity
    assert identity.addresses.prefix("block") == "a.b."
    assert identity.addresses.prefix("limited.fail") == "few.fail."
    assert identity.addresses.prefix("drop") is None
    assert identity.addresses.max_size_bytes == 30000
    assert identity.addresses.stated == {"max_size_bytes"}
    assert "address-full" in identity.capabilities
    assert not {"paging", "page-limits"} & identity.capabilities
    assert SHIPPED.prefix("limited.fail") == "full.three.fail."


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({"blok": "a."}, "addresses has no key 'blok'; its keys are block, fail"),
        ({"block": "a.#"}, r"addresses.block is 'a.#'; it must be a prefix of address names"),
        ({"block": ""}, "addresses.block is ''"),
        ({"max_size_bytes": 10**9}, "cases need a number from 16384 to 131072"),
        ({"max_size_bytes": True}, "addresses.max_size_bytes is True"),
        ({"page_limit_bytes": 20_481}, "should be a multiple"),
    ],
)
def test_wrong_addresses_are_one_sentence(values: dict[str, object], sentence: str) -> None:
    with pytest.raises(BadAddresses, match=sentence):
        full_addresses.read(values)


@pytest.fixture
def running(tmp_path: Path) -> Iterator[AddressTarget]:
    """Return the reference broker as a user's own broker, known only by its STOMP endpoint."""
    broker = target_file.load("reference-real")
    broker.start(tmp_path)
    host, port = broker.endpoints["stomp"]  # type: ignore[attr-defined]
    target = target_file.load(f"stomp://brokerproof:brokerproof@{host}:{port}?like=reference-real")
    assert isinstance(target, AddressTarget)
    target.start(tmp_path)
    yield target
    target.stop()
    broker.stop()


def test_what_nobody_configured_is_a_skip_that_says_what_to_do(running: AddressTarget) -> None:
    def uses(acceptor: str | None, kind: str | None) -> tuple[Verdict, str]:
        def function(target: Bench) -> None:
            target.stomp(acceptor=acceptor)
            if kind is not None:
                target.full_address(kind)
            target.record_finding("STOMP12-CONNECT-01", True, "connected")

        case = Case("x", "x", function, {None: ("STOMP12-CONNECT-01",)}, frozenset(), "", "x.py:1")
        run = Run(
            target=running,
            facts=running.start(Path()),
            catalogue=requirements.load(),
            deviations=(),
            recorder=Recorder(None, run="", target="t", clock=running.clock, tag="0"),
            effort="smoke",
            seed=1,
        )
        result = execute(run, Call(case, None, {}, "x"))
        return result.verdict, result.detail

    verdict, detail = uses("prefixes", None)
    assert verdict is Verdict.SKIP
    assert 'add it to the endpoints: prefixes = "HOST:PORT"' in detail
    verdict, detail = uses(None, "limited.fail")
    assert verdict is Verdict.SKIP
    assert "no addresses of the kind 'limited'" in detail
    assert "addresses.limited" in detail
    assert uses(None, None)[0] is Verdict.PASS


def test_another_run_with_the_same_seed_has_other_names(running: AddressTarget) -> None:
    names = set()
    for _ in range(2):
        running.start(Path())
        bench = Bench(running, (), label="x", seed=1)
        names.add(bench.fresh_name())
        bench.close()
    assert len(names) == 2


def test_every_kind_has_a_capability() -> None:
    for kind in full_addresses.KINDS:
        assert FullAddresses({kind: "x."}).capabilities, kind
