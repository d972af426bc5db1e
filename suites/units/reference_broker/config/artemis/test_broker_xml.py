"""Reading broker.xml: real files are understood, and nothing is silently ignored."""

import re
from importlib.resources import files
from pathlib import Path

import pytest

from brokerproof.harness.model.enums import FullPolicy, RoutingType
from brokerproof.reference_broker.config.artemis import broker_xml
from brokerproof.reference_broker.settings.acceptor import Acceptor
from brokerproof.reference_broker.settings.settings import (
    AddressSetting,
    BadSetting,
    ConfiguredAddress,
    ConfiguredQueue,
)
from brokerproof.suites.units.drivers import toml_tables

TABLES = toml_tables.beside(__file__)

OUR_FILE = Path(str(files("brokerproof.fixtures"))) / "brokers" / "artemis" / "broker.xml"
STOMP = (
    '<acceptors><acceptor name="stomp">tcp://localhost:61613?protocols=STOMP</acceptor></acceptors>'
)


def written(folder: Path, inside: str, *, acceptors: str = STOMP, security: str = "false") -> Path:
    """Write a broker.xml whose core begins on line 3 with the acceptors; ``inside`` begins on line
    5."""
    path = folder / "broker.xml"
    path.write_text(
        '<configuration xmlns="urn:activemq">\n<core xmlns="urn:activemq:core">\n'
        f"{acceptors}\n<security-enabled>{security}</security-enabled>\n{inside}\n</core>\n</configuration>\n"
    )
    return path


def refusal(path: Path) -> str:
    with pytest.raises(BadSetting) as caught:
        broker_xml.read(path, {})
    sentence = str(caught.value)
    assert sentence.startswith(str(path.parent))
    assert "\n" not in sentence
    return sentence.removeprefix(f"{path}, ")


GENERATED = Path(__file__).with_name("artemis_create.xml").read_text("utf-8")


def test_a_file_as_artemis_create_writes_it_is_understood(tmp_path: Path) -> None:
    path = tmp_path / "broker.xml"
    path.write_text(GENERATED)
    (tmp_path / "artemis-users.properties").write_text(
        "# users\n\nadmin = secret = very\n! old\nguest=\n"
    )
    settings = broker_xml.read(path, {})
    assert settings.name == "0.0.0.0"
    assert settings.security_enabled, "Artemis has security on unless the file says otherwise"
    assert settings.users == {"admin": "secret = very", "guest": ""}
    assert [(acceptor.name, acceptor.host, acceptor.port) for acceptor in settings.acceptors] == [
        ("artemis", "0.0.0.0", 61616),
        ("amqp", "0.0.0.0", 5672),
        ("stomp", "0.0.0.0", 61613),
    ]
    expected = ("CORE", "AMQP", "STOMP", "HORNETQ", "MQTT", "OPENWIRE")
    assert settings.acceptors[0].protocols == expected
    assert settings.address_settings == (
        AddressSetting(
            "activemq.management.#",
            dead_letter_address="DLQ",
            expiry_address="ExpiryQueue",
            redelivery_delay_ms=0,
            max_size_bytes=-1,
            address_full_policy=FullPolicy.PAGE,
            auto_create_queues=True,
            auto_create_addresses=True,
        ),
        AddressSetting(
            "#",
            auto_delete_queues=True,
            auto_delete_addresses=False,
            page_size_bytes=10485760,
            max_size_messages=-1,
            max_read_page_bytes=20971520,
            max_read_page_messages=-1,
            page_limit_bytes=-1,
            page_limit_messages=-1,
        ),
    )
    assert (settings.persistence_enabled, settings.journal_file_size) == (True, 10485760)
    assert settings.paging_directory == "data/paging"
    assert settings.journal_directory == "data/journal"
    assert settings.addresses == (
        ConfiguredAddress(
            "DLQ", frozenset({RoutingType.ANYCAST}), (ConfiguredQueue("DLQ", RoutingType.ANYCAST),)
        ),
        ConfiguredAddress(
            "news",
            frozenset(RoutingType),
            (ConfiguredQueue("readers", RoutingType.MULTICAST, durable=False),),
        ),
    )


def test_what_has_no_effect_is_noted_with_line_name_and_reason(tmp_path: Path) -> None:
    path = tmp_path / "broker.xml"
    path.write_text(GENERATED)
    (tmp_path / "artemis-users.properties").write_text("")
    notes = broker_xml.read_with_notes(path, {}).notes
    by_name = {note.where.name: note for note in notes}
    assert by_name["journal-type"].where.line == 12
    assert by_name["acceptor 'amqp', useEpoll"].where.line == 37
    assert "socket" in by_name["acceptor 'amqp', useEpoll"].reason
    assert str(by_name["max-disk-usage"]).startswith(
        f"{path}, line 27: max-disk-usage has no effect here: "
    )
    assert by_name["expiry-address"].reason == "messages do not expire here"
    used = {
        "name",
        "acceptors",
        "addresses",
        "address-settings",
        "dead-letter-address",
        "auto-create-queues",
    }
    assert not used & set(by_name)


def test_our_own_file_for_both_brokers_is_understood() -> None:
    settings = broker_xml.read(OUR_FILE)
    assert settings.acceptor("stomp") == Acceptor("stomp", port=settings.acceptor("stomp").port)
    assert settings.acceptor("ttl-2000").ttl.connection_ttl_ms == 2000
    assert settings.acceptor("ttl-modifier-1.5").ttl.heart_beat_to_connection_ttl_modifier == 1.5
    assert settings.acceptor("credits-3000").stomp.consumer_window_size == 3000
    assert settings.acceptor("prefixes").anycast_prefix == ("queue/",)
    assert settings.users, "security is on in that file"


def test_broker_wide_values(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        "<connection-ttl-override>7000</connection-ttl-override>"
        "<connection-ttl-check-interval>250</connection-ttl-check-interval>"
        "<wildcard-addresses><delimiter>/</delimiter><any-words>></any-words><routing-enabled>true</routing-enabled>"
        "</wildcard-addresses>",
    )
    settings = broker_xml.read(path, {})
    assert settings.connection_ttl_override_ms == 7000
    assert settings.connection_ttl_check_interval_ms == 250
    wildcards = (
        settings.wildcard_delimiter,
        settings.wildcard_any_words,
        settings.wildcard_single_word,
    )
    assert wildcards == ("/", ">", "*")
    assert not settings.security_enabled
    assert not settings.users


def test_placeholders_come_from_the_environment_or_their_default(tmp_path: Path) -> None:
    path = written(tmp_path, "<name>${NAME:fall-back}</name>")
    assert broker_xml.read(path, {}).name == "fall-back"
    assert broker_xml.read(path, {"NAME": "given"}).name == "given"
    assert "line 5: name: ${NAME} has no value" in refusal(
        written(tmp_path, "<name>${NAME}</name>")
    )


@pytest.mark.parametrize(("inside", "sentence"), TABLES["elements"])
def test_a_bad_element_is_refused_with_file_line_and_name(
    tmp_path: Path, inside: str, sentence: str
) -> None:
    refused = refusal(written(tmp_path, inside))
    assert sentence in refused
    assert refused.startswith("line ")


@pytest.mark.parametrize(("setting", "sentence"), TABLES["address_settings"])
def test_a_bad_address_setting_is_refused(tmp_path: Path, setting: str, sentence: str) -> None:
    inside = (
        "<address-settings>\n<address-setting"
        f" match='#'>\n{setting}\n</address-setting></address-settings>"
    )
    refused = refusal(written(tmp_path, inside))
    assert refused.startswith("line 7: ")
    assert sentence in refused


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("0", 0),
        ("1024", 1024),
        ("10K", 10240),
        ("10 kb", 10240),
        ("3MiB", 3 * 1024**2),
        ("2g", 2 * 1024**3),
        ("-1", -1),
    ],
)
def test_sizes_have_units_of_1024(tmp_path: Path, text: str, size: int) -> None:
    setting = (
        f"<address-setting match='#'><max-size-bytes> {text}\n</max-size-bytes></address-setting>"
    )
    path = written(tmp_path, f"<address-settings>{setting}</address-settings>")
    assert broker_xml.read(path, {}).address_settings[0].max_size_bytes == size


@pytest.mark.parametrize(("queue", "sentence"), TABLES["queues"])
def test_a_bad_queue_is_refused(tmp_path: Path, queue: str, sentence: str) -> None:
    inside = f"<addresses><address name='a'><anycast>{queue}</anycast></address></addresses>"
    assert sentence in refusal(written(tmp_path, inside))


@pytest.mark.parametrize(("text", "sentence"), TABLES["files"])
def test_a_file_that_is_no_broker_xml_is_refused(tmp_path: Path, text: str, sentence: str) -> None:
    path = tmp_path / "broker.xml"
    path.write_text(text)
    assert sentence in refusal(path)


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(
        BadSetting, match=r"broker\.xml: cannot be read \(No such file or directory\)"
    ):
        broker_xml.read(tmp_path / "broker.xml")


@pytest.mark.parametrize(
    ("users", "sentence"),
    [
        ("alice\n", "line 1: the line is not a user; write NAME = PASSWORD"),
        ("\n= x\n", "line 2: the line is not a user"),
        ("a=1\na=2\n", "line 2: a: the user is given twice"),
        ("a = ENC(1024:AB:CD)\n", "line 1: a: a masked password cannot be checked"),
        (None, "cannot be read (No such file or directory); security is on"),
    ],
)
def test_bad_users_are_refused_when_security_is_on(
    tmp_path: Path, users: str | None, sentence: str
) -> None:
    path = written(tmp_path, "", security="true")
    if users is not None:
        path.with_name("artemis-users.properties").write_text(users)
    assert sentence in refusal(path)


def test_a_billion_laughs_are_not_laughed(tmp_path: Path) -> None:
    levels = "".join(f"<!ENTITY l{n} '{f'&l{n - 1};' * 10}'>" for n in range(1, 10))
    path = tmp_path / "broker.xml"
    path.write_text(
        f"<!DOCTYPE configuration [<!ENTITY l0 'ha'>{levels}]><configuration xmlns='urn:activemq'>"
        "<core xmlns='urn:activemq:core'><name>&l9;</name></core></configuration>"
    )
    # Some versions of libxml2 reject the entities themselves, others leave that to our code.
    assert re.match("line 1: (a DOCTYPE is not accepted|malformed XML: .*entity)", refusal(path))


def test_a_match_that_goes_on_behind_any_words_is_refused(tmp_path: Path) -> None:
    settings = "<address-settings><address-setting match='a.#.b'/></address-settings>"
    assert "line 5: address-setting: the match 'a.#.b' continues after #" in refusal(
        written(tmp_path, settings)
    )
    others = "<wildcard-addresses><any-words>%</any-words></wildcard-addresses>"
    assert (
        broker_xml.read(written(tmp_path, settings + others), {}).address_settings[0].match
        == "a.#.b"
    )
