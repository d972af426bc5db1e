"""Translates a classic ``rabbitmq.config`` into the equivalent lines of a ``rabbitmq.conf``.

The file has a list of settings for each application: ``[{rabbit, [{vm_memory_high_watermark, 0.4},
…]}, …].`` RabbitMQ's own table of equivalents (``rabbit.schema``) is used for the settings that
this broker supports.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeAlias

from brokerproof.reference_broker.config.rabbitmq import erlang_terms
from brokerproof.reference_broker.config.rabbitmq.erlang_terms import (
    Atom,
    Number,
    Sequence,
    Term,
    Text,
    shown,
)
from brokerproof.reference_broker.config.values import Where, nearest

SUFFIX = ".config"

Lines: TypeAlias = Iterator[tuple[str, str]]
"""Keys and values in the format of a rabbitmq.conf."""
_SHAPE = "write [{rabbit, [{vm_memory_high_watermark, 0.4}]}]."


def lines(path: Path) -> Iterator[tuple[Where, str, str]]:
    """Yield the place, key and value of each setting. Raises
    :class:`brokerproof.reference_broker.settings.settings.BadSetting`."""
    whole = erlang_terms.read(path)
    where = Where(path, whole.line)
    for application, settings in _pairs(whole, where, _SHAPE):
        if application.name in _WITHOUT_EFFECT:
            continue
        known = _APPLICATIONS.get(application.name)
        there = Where(path, application.line, application.name)
        if known is None:
            hint = nearest(application.name, [*_APPLICATIONS, *_WITHOUT_EFFECT])
            raise there.bad("is an application that is unknown here", hint or "leave it out")
        for key, value in _pairs(
            settings, there, f"write {{{application.name}, [{{KEY, VALUE}}, …]}}"
        ):
            here = Where(path, key.line, f"{application.name}.{key.name}")
            if key.name in known:
                for name, text in known[key.name](value, here):
                    yield here, name, text
            elif not key.name.startswith(_KEYS_WITHOUT_EFFECT):
                hint = nearest(key.name, [*known, *_KEYS_WITHOUT_EFFECT])
                raise here.bad("is unknown here", hint or "leave it out")


def _pairs(term: Term, where: Where, right: str) -> Iterator[tuple[Atom, Term]]:
    """Return the pairs in a list of ``{atom, term}``; a single atom stands for ``{atom, true}``."""
    if not isinstance(term, Sequence) or term.is_tuple:
        raise Where(where.file, term.line, where.name).bad(f"{shown(term)} is not a list", right)
    for item in term.items:
        if isinstance(item, Atom):
            yield item, Atom("true", item.line)
            continue
        pair = item.items if isinstance(item, Sequence) and item.is_tuple else ()
        if len(pair) != 2 or not isinstance(pair[0], Atom):
            raise Where(where.file, item.line, where.name).bad(
                f"{shown(item)} is not a {{KEY, VALUE}}", right
            )
        yield pair[0], pair[1]


def _number(key: str) -> Callable[[Term, Where], Lines]:
    def lines(term: Term, where: Where) -> Lines:
        if not isinstance(term, Number):
            raise where.bad(f"{shown(term)} is not a number", "write one without quotation marks")
        yield key, str(term.value)

    return lines


def _text(key: str) -> Callable[[Term, Where], Lines]:
    def lines(term: Term, where: Where) -> Lines:
        if not isinstance(term, Text) or not term.binary:
            text = term.text if isinstance(term, Text) else shown(term)
            raise where.bad(f"{shown(term)} is not a binary", f'write <<"{text}">>')
        yield key, term.text

    return lines


def _word(key: str) -> Callable[[Term, Where], Lines]:
    def lines(term: Term, where: Where) -> Lines:
        if not isinstance(term, Atom):
            raise where.bad(f"{shown(term)} is not a word", "write it without quotation marks")
        yield key, term.name

    return lines


def _limit(key: str, relative: str) -> Callable[[Term, Where], Lines]:
    """Read ``{absolute, OCTETS}`` or ``{relative, NUMBER}``; a single number is a fraction of the
    memory or, for the disk, a number of bytes."""
    alone = "relative" if relative == "relative" else "absolute"

    def lines(term: Term, where: Where) -> Lines:
        kind, amount = alone, term
        if isinstance(term, Sequence):
            pair = term.items if term.is_tuple else ()
            if (
                len(pair) != 2
                or not isinstance(pair[0], Atom)
                or pair[0].name not in ("absolute", relative)
            ):
                right = f"write {{absolute, OCTETS}} or {{{relative}, NUMBER}}"
                raise where.bad(f"{shown(term)} is not a limit", right)
            kind, amount = ("absolute" if pair[0].name == "absolute" else "relative"), pair[1]
        if kind == "absolute" and isinstance(amount, Text) and not amount.binary:
            yield f"{key}.absolute", amount.text
        elif isinstance(amount, Number):
            yield f"{key}.{kind}", str(amount.value)
        else:
            raise where.bad(
                f"{shown(term)} is not a limit", "write a number, or a string with a unit"
            )

    return lines


def _listeners(key: str) -> Callable[[Term, Where], Lines]:
    """Read ``[5672]`` or ``[{"127.0.0.1", 5672}]``; ``[]`` means none."""

    def lines(term: Term, where: Where) -> Lines:
        right = 'write [PORT] or [{"HOST", PORT}]'
        if not isinstance(term, Sequence) or term.is_tuple:
            raise where.bad(f"{shown(term)} is not a list of listeners", right)
        if not term.items:
            yield key, "none"
        for number, listener in enumerate(term.items, 1):
            match listener:
                case Number(port):
                    yield f"{key}.{number}", str(port)
                case Sequence((Text(host, False), Number(port)), True):
                    yield f"{key}.{number}", f"{host}:{port}"
                case _:
                    raise where.bad(f"{shown(listener)} is not a listener", right)

    return lines


def _over_http(name: str, port: int) -> Callable[[Term, Where], Lines]:
    example = f'write [{{ip, "127.0.0.1"}}, {{port, {port}}}]'

    def lines(term: Term, where: Where) -> Lines:
        for key, value in _pairs(term, where, example):
            match key.name, value:
                case "ip", Text(host, False):
                    yield f"{name}.tcp.ip", host
                case "port", Number(number):
                    yield f"{name}.tcp.port", str(number)
                case (("ip" | "port"), _):
                    raise where.bad(
                        f"{key.name} is {shown(value)}", 'write {ip, "HOST"} and {port, NUMBER}'
                    )

    return lines


_APPLICATIONS: dict[str, dict[str, Callable[[Term, Where], Lines]]] = {
    "rabbit": {
        **{
            key: _number(key)
            for key in ("heartbeat", "channel_max", "frame_max", "max_message_size")
        },
        **{
            key: _number(key)
            for key in ("handshake_timeout", "vm_memory_high_watermark_paging_ratio")
        },
        "default_user": _text("default_user"),
        "default_pass": _text("default_pass"),
        "tcp_listeners": _listeners("listeners.tcp"),
        "vm_memory_high_watermark": _limit("vm_memory_high_watermark", "relative"),
        "disk_free_limit": _limit("disk_free_limit", "mem_relative"),
    },
    "rabbitmq_stomp": {"tcp_listeners": _listeners("stomp.listeners.tcp")},
    "rabbitmq_management": {
        key: _over_http("management", 15672) for key in ("listener", "tcp_config")
    },
    "rabbitmq_web_stomp": {
        "tcp_config": _over_http("web_stomp", 15674),
        "ws_frame": _word("web_stomp.ws_frame"),
    },
}
_WITHOUT_EFFECT = ("kernel", "sasl", "lager", "mnesia", "ra", "rabbitmq_amqp1_0")
"""Applications that do not exist here."""
_KEYS_WITHOUT_EFFECT = (
    *(
        "log",
        "loopback_users",
        "collect_statistics",
        "rates_mode",
        "default_vhost",
        "default_permissions",
    ),
    *(
        "ssl_config",
        "cowboy_opts",
        "ws_opts",
        "ws_path",
        "use_http_auth",
        "allow_origins",
        "num_",
        "max_connections",
    ),
    *(
        "default_user_tags",
        "cluster_nodes",
        "cluster_partition_handling",
        "delegate_count",
        "tcp_listen_options",
    ),
)
"""Settings, or prefixes of settings, that have no effect here."""
