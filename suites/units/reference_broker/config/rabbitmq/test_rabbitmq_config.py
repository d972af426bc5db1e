"""Classic rabbitmq.config files: Erlang terms and their meaning. The broker and the harness read
them alike."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from brokerproof.harness.targets import parameters
from brokerproof.harness.targets.failure import SetUpFailed
from brokerproof.harness.targets.rabbitmq import broker, erlang_config
from brokerproof.reference_broker.config.rabbitmq import erlang_terms, rabbitmq_conf
from brokerproof.reference_broker.config.rabbitmq.erlang_terms import Atom, Number, Sequence, Text
from brokerproof.reference_broker.runtime.virtual import make
from brokerproof.reference_broker.settings.settings import BadSetting, Settings
from brokerproof.suites.units.drivers import toml_tables

TABLES = toml_tables.beside(__file__)

OURS = broker.our_files() / "classic.config"


def _file(folder: Path, text: str) -> Path:
    path = folder / "rabbitmq.config"
    path.write_text(text, "utf-8")
    return path


def _read(folder: Path, text: str) -> Settings:
    return rabbitmq_conf.read(_file(folder, text))


def test_terms_of_every_kind(tmp_path: Path) -> None:
    text = """
    %% a comment
    [ {a, 'quoted \\'atom\\''}, {s, "one\\n" "two"}, {b, <<"bin">>}, {n, [1, -2, 1_000, 16#fF, 2#101, $a, $\\n]},
      {f, [0.4, -1.5e-3]}, {e, []}, {t, {}}, {o, <<104, $i, "!">>} ] .  % the end
    """  # noqa: E501
    found = erlang_terms.read(_file(tmp_path, text))
    assert isinstance(found, Sequence)
    values = {item.items[0].name: item.items[1] for item in found.items}  # type: ignore[union-attr]
    assert values["a"] == Atom("quoted 'atom'", 3)
    assert values["s"] == Text("one\ntwo", False, 3)
    assert (values["b"], values["o"]) == (Text("bin", True, 3), Text("hi!", True, 4))
    assert [item.value for item in values["n"].items] == [1, -2, 1000, 255, 5, 97, 10]
    assert [item.value for item in values["f"].items] == [0.4, -0.0015]
    assert (values["e"], values["t"]) == (Sequence((), False, 4), Sequence((), True, 4))


@pytest.mark.parametrize(("text", "sentence"), TABLES["refused"])
def test_what_is_wrong_is_one_sentence(tmp_path: Path, text: str, sentence: str) -> None:
    with pytest.raises(BadSetting) as refused:
        _read(tmp_path, text)
    assert str(refused.value).startswith(str(tmp_path / "rabbitmq.config"))
    assert sentence in str(refused.value)


def test_what_settings_mean(tmp_path: Path) -> None:
    settings = _read(
        tmp_path,
        """[{rabbit, [{tcp_listeners, [{"127.0.0.2", 5673}]}, {heartbeat, 10}, {frame_max, 8192},
             {default_user, <<"ann">>}, {default_pass, <<"p w">>}, {log_levels, [{connection, info}]},
             {vm_memory_high_watermark, {absolute, "2GiB"}}, {disk_free_limit, {mem_relative, 1}}]},
            {rabbitmq_stomp, [{tcp_listeners, [61614]}]},
            {rabbitmq_web_stomp, [{tcp_config, [{port, 15675}, {ip, "127.0.0.4"}]}, {ws_frame, binary}, {cowboy_opts, []}]},
            {rabbitmq_management, [{listener, [{port, 15673}, {ip, "127.0.0.3"}, {ssl, false}]}]}].""",  # noqa: E501
    )
    where = {acceptor.name: (acceptor.host, acceptor.port) for acceptor in settings.acceptors}
    assert where == {
        "amqp": ("127.0.0.2", 5673),
        "stomp": ("127.0.0.1", 61614),
        "management": ("127.0.0.3", 15673),
        "web_stomp": ("127.0.0.4", 15675),
    }
    assert settings.acceptor("amqp").amqp091.heartbeat_s == 10
    assert settings.acceptor("amqp").amqp091.frame_max == 8192
    assert settings.acceptor("web_stomp").web_socket.encoder_type == "binary"
    assert settings.rabbitmq.memory_high_watermark == 2 * 1024**3
    assert settings.rabbitmq.disk_free_limit == 1.0
    assert settings.users == {"ann": "p w"}

    def watermark(text: str) -> float | int:
        return _read(
            tmp_path, f"[{{rabbit, [{{vm_memory_high_watermark, {text}}}]}}]."
        ).rabbitmq.memory_high_watermark

    assert [watermark(name) for name in ("0.4", "0", "{relative, 2}", "{absolute, 100}")] == [
        0.4,
        0.0,
        2.0,
        100,
    ]
    limits = {
        "1000000000": 10**9,
        '"50MB"': 50_000_000,
        '{absolute, "1kB"}': 1000,
        "{mem_relative, 0.5}": 0.5,
    }
    for text, limit in limits.items():
        assert (
            _read(
                tmp_path, f"[{{rabbit, [{{disk_free_limit, {text}}}]}}]."
            ).rabbitmq.disk_free_limit
            == limit
        )
    assert [
        acceptor.name
        for acceptor in _read(tmp_path, "[{rabbitmq_stomp, [{tcp_listeners, []}]}].").acceptors
    ] == ["amqp", "management", "web_stomp"]


def test_the_shipped_file_is_read_alike() -> None:
    settings = rabbitmq_conf.read(OURS)
    known = parameters.from_file(OURS, {"amqp091_heartbeat_s": 60, "amqp091_channel_max": 2047})[
        "amqp"
    ]
    amqp = settings.acceptor("amqp")
    assert (amqp.amqp091.heartbeat_s, amqp.amqp091.channel_max) == (20, 100)
    assert (known["amqp091_heartbeat_s"], known["amqp091_channel_max"]) == (20, 100)
    assert settings.rabbitmq.memory_high_watermark == 0.3
    assert settings.rabbitmq.disk_free_limit == 0.1
    found = broker.settings(OURS)
    assert (
        settings.users
        == {found["default_user"]: found["default_pass"]}
        == {"brokerproof": "brokerproof"}
    )
    expected = {"stomp", "amqp", "management", "web_stomp"}
    assert set(make(str(OURS), {}, start=0).acceptors) == expected


@pytest.mark.parametrize(("text", "sentence"), TABLES["refused_by_the_harness"])
def test_what_the_harness_cannot_use_is_one_sentence(
    tmp_path: Path, text: str, sentence: str
) -> None:
    with pytest.raises(SetUpFailed) as refused:
        broker.settings(_file(tmp_path, text))
    assert sentence in str(refused.value)


_atoms = st.from_regex(r"[a-z][A-Za-z0-9_@]{0,8}", fullmatch=True)
_texts = st.text(st.characters(codec="ascii", exclude_categories=["Cc"]), max_size=8)
_leaves = st.one_of(
    _atoms.map(lambda each: (each, each)),
    st.integers(-(10**9), 10**9).map(lambda each: (str(each), each)),
    st.floats(0.001, 1e6)
    .filter(lambda each: "e" not in repr(each))
    .map(lambda each: (repr(each), each)),
    _texts.map(lambda text: ('"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"', text)),
    _texts.map(lambda text: ('<<"' + text.replace("\\", "\\\\").replace('"', '\\"') + '">>', text)),
)
_terms = st.recursive(
    _leaves,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3).map(
            lambda each: (
                "[" + ", ".join(text for text, _ in each) + "]",
                [value for _, value in each],
            )
        ),
        st.lists(inner, max_size=3).map(
            lambda each: (
                "{" + ",".join(text for text, _ in each) + "}",
                tuple(value for _, value in each),
            )
        ),
    ),
    max_leaves=8,
)


def _plain(term: erlang_terms.Term) -> object:
    match term:
        case Atom(name):
            return name
        case Text(text) | Number(text):
            return text
        case Sequence(items, is_tuple):
            inside = [_plain(item) for item in items]
            return tuple(inside) if is_tuple else inside


@settings(max_examples=40)
@given(_atoms, _terms)
def test_broker_and_harness_read_the_same(
    tmp_path_factory: pytest.TempPathFactory, key: str, term: tuple[str, object]
) -> None:
    path = tmp_path_factory.getbasetemp() / "same.config"
    path.write_text(f"[{{app, [{{{key}, {term[0]}}}]}}].\n", "utf-8")
    (setting,) = erlang_config.settings(path)
    assert (setting.application, setting.key, setting.value) == ("app", key, term[1])
    assert _plain(erlang_terms.read(path)) == [("app", [(key, term[1])])]
