"""Target files: ``NAME.target.toml`` states a target's kind of broker and how to reach it.

``--target`` takes the name of a shipped file, the path of a file, ``HOST:PORT``, or URLs
(``target_url.py``). A shipped name followed by ``@VERSION`` is the same target with another release
of the broker. Other packages add targets as ``WORD:NAME``: an entry point WORD of the group
``brokerproof.targets`` is a function from NAME to a target, which raises ``ValueError`` with one
sentence for an unknown name. A file has::

    kind = "virtual" | "process" | "artemis" | "activemq" | "rabbitmq" | "proton" | "container" | "address" | "client"
    profile = "artemis"            # what is expected of it; address: optional, as the broker names itself
    like = "artemis" | "none"      # a shipped target whose family it belongs to; optional (likeness.py)
    config = "broker.xml"          # next to this file; virtual, process, artemis, activemq, rabbitmq
    factory = "package.module:function"    # virtual
    command = ["{python}", "-m", …]        # process, client (see targets/client/target.py)
    version = "2.56.0"             # artemis, activemq, rabbitmq, proton, client; optional
    package = "pip:NAME" | "npm:NAME" | "go:MODULE"   # client: fetched in that version; optional
    driver = "{drivers}/go/gostomp.go"     # client: the source that is built with a package of Go
    broker = "proton-c" | "proton-python"  # proton; container: "rabbitmq" | "artemis" | "activemq"
    image = "rabbitmq:4.1-management"      # container; optional
    queue_type = "classic" | "quorum"      # rabbitmq: of queues declared for AMQP 1.0; optional
    nodes = 2                      # rabbitmq: a cluster; optional
    clock_rate = 10                # artemis, activemq, rabbitmq: the broker's clock runs so many times as fast; optional
    parameters = { stomp_host = "/" }       # other values than the profile's; optional
    limits = { case_seconds = 60 }  # other bounds in real time than harness/model/cost_limits.py; optional
    endpoints = { stomp = "127.0.0.1:61613", amqp = "amqps://127.0.0.1:5671?ca=ca.pem" }   # address; see endpoint.py
    acceptors = { stomp = { connection_ttl_ms = 5000 } }   # address: parameters of one endpoint; optional
    addresses = { block = "full.block.", max_size_bytes = 20480 }   # address; see full_addresses.py; optional
    rabbitmqctl = ["docker", "exec", "rabbit", "rabbitmqctl"]   # address: raises alarms; optional
    release = "2.56.0"             # address: of a broker that does not name it; optional
    local = true                   # address: a process of this machine without a proxy; optional
    manual = "2.33"                # the release whose manual binds it; optional: its own release
    login, passcode (or passcode_env, passcode_file), default_acceptor, default_amqp_acceptor, add_capabilities, deviations   # optional
    not_offered = { amqp-modified = "README of the plugin, Limitations" }   # capabilities of the profile that it lacks, and why; optional
    judged_on = { stomp = "rabbitmq" }   # capabilities that are judged on that shipped target instead; optional
    scope = ["system-usage"]       # only cases that need one of these capabilities are judged here; optional
    others_judged_on = "activemq"  # the shipped target on which all other cases are judged; with scope
"""  # noqa: E501

import dataclasses
import difflib
import re
from collections.abc import Callable, Mapping
from functools import partial
from importlib.metadata import entry_points
from pathlib import Path
from types import MappingProxyType
from typing import Any

from brokerproof.harness.catalogue import capabilities, profiles, tables
from brokerproof.harness.catalogue.tables import BadData
from brokerproof.harness.model import input_file
from brokerproof.harness.model.cost_limits import Limits, changed
from brokerproof.harness.model.input_file import OneSentence
from brokerproof.harness.targets import (
    credentials,
    endpoint,
    full_addresses,
    likeness,
    parameters,
    shipped_targets,
    target_url,
)
from brokerproof.harness.targets.activemq.target import ActivemqTarget
from brokerproof.harness.targets.artemis.target import ArtemisTarget
from brokerproof.harness.targets.client.target import ClientTarget
from brokerproof.harness.targets.container.recipes import RECIPES
from brokerproof.harness.targets.container.target import ContainerTarget
from brokerproof.harness.targets.external.target import AddressTarget
from brokerproof.harness.targets.failure import SetUpFailed
from brokerproof.harness.targets.process import ProcessTarget
from brokerproof.harness.targets.proton.examples import NAMES as EXAMPLES
from brokerproof.harness.targets.proton.target import ProtonTarget
from brokerproof.harness.targets.rabbitmq.cluster import NODES, RabbitmqClusterTarget
from brokerproof.harness.targets.rabbitmq.target import RabbitmqTarget
from brokerproof.harness.targets.reference.target import VirtualTarget
from brokerproof.harness.targets.target import Identity, Target
from brokerproof.harness.trace.redaction import without_passcode

GROUP = "brokerproof.targets"
CLIENT = "client"
"""The word that precedes the name of a client library that has a driver here."""
CLIENT_CLOCKS = "client-clocks"
"""The capability of a target whose clock is not accelerated."""
SOCKETS = "sockets"
"""The capability of a target in real time: clients may use their own sockets."""
LOGIN = "login"
"""The capability of a target with a login, so that both right and wrong logins exist."""

_COMMON: dict[str, type] = {
    "kind": str,
    "profile": str,
    "like": str,
    "description": str,
    "login": str,
    "passcode": str,
    "passcode_env": str,
    "passcode_file": str,
    "default_acceptor": str,
    "default_amqp_acceptor": str,
    "add_capabilities": list,
    "not_offered": dict,
    "judged_on": dict,
    "scope": list,
    "cases": list,
    "others_judged_on": str,
    "deviations": str,
    "manual": str,
    "parameters": dict,
    "limits": dict,
}
_OF_KIND: dict[str, dict[str, type]] = {
    "virtual": {"factory": str, "config": str},
    "process": {"command": list, "config": str},
    "artemis": {"config": str, "version": str, "clock_rate": int},
    "activemq": {"config": str, "version": str, "clock_rate": int},
    "rabbitmq": {"config": str, "version": str, "queue_type": str, "nodes": int, "clock_rate": int},
    "proton": {"broker": str, "version": str},
    "client": {"command": list, "package": str, "version": str, "driver": str},
    "container": {"broker": str, "config": str, "version": str, "image": str, "queue_type": str},
    "address": {
        "endpoints": dict,
        "config": str,
        "acceptors": dict,
        "addresses": dict,
        "rabbitmqctl": list,
        "release": str,
        "local": bool,
        "queue_type": str,
    },
}
_OPTIONAL = {
    *("version", "queue_type", "nodes", "image", "acceptors", "addresses", "rabbitmqctl"),
    *("release", "local", "clock_rate", "package", "driver"),
} | (_COMMON.keys() - {"kind", "profile"})


class BadTarget(OneSentence):
    """A ``--target`` that names no target. The message gives the file, the key, and what would be
    right."""


def load(text: str, limits: Mapping[str, int] = MappingProxyType({})) -> Target:
    """Return the target that ``text`` names; ``limits`` override those in the target's file. Raises
    :class:`BadTarget`."""
    known = shipped_targets.paths()
    if text in known:
        return _from_file(known[text], text, limits)
    shipped_name, at, version = text.rpartition("@")
    if at and shipped_name in known:
        return _from_file(known[shipped_name], text, limits, version)
    if text.endswith(".toml") or input_file.is_file(Path(text)):
        name = Path(text).name.removesuffix(".toml").removesuffix(".target").removesuffix(".client")
        return _from_file(Path(text), name, limits)
    word, colon, name = text.partition(":")
    if word == CLIENT and colon:
        return _from_file(_client(name.partition("@")[0]), text, limits, name.partition("@")[2])
    for point in (
        entry_points(group=GROUP, name=word) if colon and not name.startswith("//") else ()
    ):
        if limits:
            raise BadTarget(f"--target {text!r} has no limits; omit --limit")
        return _from_elsewhere(point.load(), name, text)
    if "://" in text:
        return _from_url(target_url.joined(text, ()), limits)
    if re.fullmatch(r"(\[[0-9a-fA-F:]+\]|[^:/\s]+):\d+", text):
        return _from_url(f"stomp://{text}", limits)
    near = difflib.get_close_matches(text, known, n=3)
    meant = f"did you mean {' or '.join(near)}? " if near else ""
    raise BadTarget(
        f"--target {without_passcode(text)!r} is not a target file, HOST:PORT or URL;"
        f" {meant}`brokerproof targets` lists the built-in targets"
    )


def _client(name: str) -> Path:
    known = shipped_targets.clients()
    if name in known:
        return known[name]
    near = difflib.get_close_matches(name, known, 1)
    meant = "".join(f"did you mean client:{known_name}? " for known_name in near)
    raise BadTarget(
        f"--target client:{name}: no such driver is built in; {meant}the drivers are"
        f" {', '.join(known)}, and a target file may name one of your own"
    )


def _from_elsewhere(find: Callable[[str], Target], name: str, text: str) -> Target:
    try:
        return find(name)
    except ValueError as problem:
        raise BadTarget(f"--target {without_passcode(text)!r}: {problem}") from None


def _from_url(text: str, limits: Mapping[str, int], family: str = "") -> AddressTarget:
    shown = without_passcode(text)
    try:
        values = target_url.values(text)
    except (endpoint.BadEndpoint, credentials.NoCredentials) as problem:
        raise BadTarget(f"--target {shown!r}: {problem}") from None
    endpoints = values["endpoints"]
    if family:
        values["like"] = family
    values["limits"] = limits
    is_open = not values.keys() & {"profile", "like"}
    values = _inherited(values, f"--target {shown!r}")
    if "profile" not in values:
        of_stomp = {given.protocol for given in endpoints.values()} == {"stomp"}
        values["profile"] = "stomp" if of_stomp else "any"
    name = next(iter(endpoints.values())).where
    as_family = partial(_from_url, text, limits) if is_open else None
    return _address(values, name, Path(), f"--target {shown!r}", as_family)


def _inherited(values: Mapping[str, Any], where: object) -> dict[str, Any]:
    try:
        return likeness.inherited(values, shipped_targets.paths())
    except likeness.BadLikeness as problem:
        raise BadTarget(f"{where}: {problem}") from None


def _check_keys(kind: str, values: Mapping[str, Any], path: Path) -> None:
    allowed = _COMMON | _OF_KIND[kind]
    for key, value in values.items():
        if key not in allowed:
            raise BadTarget(
                f"{path}: unknown key {key!r}; a target of kind {kind} has"
                f" {', '.join(sorted(allowed))}"
            )
        if type(value) is not allowed[key]:
            raise BadTarget(
                f"{path}: {key} is {value!r:.60}; it should be a {allowed[key].__name__}"
            )
    for key in ("command", "rabbitmqctl", "add_capabilities"):
        if not all(isinstance(word, str) for word in values.get(key, ())):
            raise BadTarget(f"{path}: {key} should be a list of strings")
    _check_capabilities(values, path)
    for key in ("endpoints", "parameters"):
        for entry, value in values.get(key, {}).items():
            if not isinstance(value, str | int | float):
                raise BadTarget(f"{path}: {key}.{entry} should be text or a number")
    for key in sorted((_OF_KIND[kind].keys() | {"profile"}) - _OPTIONAL - values.keys()):
        if not (kind in ("address", "process") and key == "config"):
            raise BadTarget(f"{path}: {key} is missing; a target of kind {kind} needs it")


def _from_file(
    path: Path, name: str, limits: Mapping[str, int], version: str = "", family: str = ""
) -> Target:
    try:
        values, _ = tables.read(path)
    except BadData as problem:
        raise BadTarget(str(problem)) from None
    kind = str(values.get("kind"))
    if kind not in _OF_KIND:
        raise BadTarget(f"{path}: kind is {kind!r}; it should be one of {', '.join(_OF_KIND)}")
    if version and "version" not in _OF_KIND[kind]:
        raise BadTarget(
            f"--target {name!r}: a target of kind {kind} has no releases to choose from; omit"
            f" @{version}"
        )
    if version:
        values["version"] = version
        if values.pop("cases", None) and "scope" not in values:
            # The cases that a file names are for the file's own release. Another release is judged
            # by all cases.
            values.pop("others_judged_on", None)
    if family:
        values["like"] = family
    is_open = kind == "address" and not values.keys() & {"profile", "like"}
    values = _inherited(values, path)
    if kind == "address":
        values.setdefault("profile", "any")
    _check_keys(kind, values, path)
    values["limits"] = {**values.get("limits", {}), **limits}
    try:
        if (passcode := credentials.passcode(values, path.parent)) is not None:
            values["passcode"] = passcode
        if "login" in values:
            values["login"] = credentials.filled_in(values["login"])
    except credentials.NoCredentials as problem:
        raise BadTarget(f"{path}: {problem}") from None
    if kind == "address":
        as_family = partial(_from_file, path, name, limits, version) if is_open else None
        return _address(values, name, path, path, as_family)
    identity = _identity(name, kind, values, path).of_release(values.get("version", ""))
    return _MAKERS[kind](identity, values, path)


def _check_capabilities(values: Mapping[str, Any], path: Path) -> None:
    added = values.get("add_capabilities", ())
    not_offered, judged_on = values.get("not_offered", {}), values.get("judged_on", {})
    key = "add_capabilities"
    try:
        capabilities.check(added)
        key = "not_offered"
        capabilities.check_reasons(not_offered, {*added, *judged_on})
        key = "judged_on"
        capabilities.check_reasons(judged_on, added)
    except capabilities.BadCapabilities as problem:
        raise BadTarget(f"{path}: {key}: {problem}") from None
    for name, target in judged_on.items():
        _check_shipped(target, f"{path}: judged_on: {name}")
    _check_scope(values, path)


def _check_scope(values: Mapping[str, Any], path: Path) -> None:
    """Raise :class:`BadTarget` unless ``scope`` names capabilities that the file adds, and
    ``others_judged_on`` names a shipped target and accompanies ``scope`` or ``cases``."""
    named = [key for key in ("scope", "cases") if key in values]
    if bool(named) != ("others_judged_on" in values):
        raise BadTarget(
            f"{path}: scope (or cases) and others_judged_on go together; name both or neither"
        )
    for key in named:
        if not values[key] or not all(isinstance(name, str) for name in values[key]):
            raise BadTarget(f"{path}: {key} should be a non-empty list of strings")
    added = values.get("add_capabilities", ())
    if unknown := [name for name in values.get("scope", ()) if name not in added]:
        raise BadTarget(
            f"{path}: scope names {unknown[0]!r:.60}; it should name capabilities of"
            " add_capabilities"
        )
    if named:
        _check_shipped(values["others_judged_on"], f"{path}: others_judged_on")


def _check_shipped(target: Any, place: str) -> None:
    if target not in shipped_targets.paths():
        raise BadTarget(
            f"{place} is {target!r:.60}; name a target that `brokerproof targets` lists"
        )


def _not_offered(profile: profiles.Profile, values: Mapping[str, Any]) -> dict[str, str]:
    """Return the reasons for capabilities that the profile or the file declares as not offered."""
    stated = {**profile.not_offered, **values.get("not_offered", {})}
    of_protocols = {
        name: stated[capability.protocol]
        for name, capability in capabilities.listed().items()
        if capability.protocol in stated
        and capability.family in ("", profile.name)
        and name not in profile.capabilities
    }
    return {
        name: f"not offered: {reason}"
        for name, reason in (of_protocols | stated).items()
        if name not in values.get("add_capabilities", ())
        and name not in values.get("judged_on", ())
    }


def _identity(name: str, kind: str, values: Mapping[str, Any], path: Path) -> Identity:
    try:
        profile = profiles.load(values["profile"])
    except BadData as problem:
        raise BadTarget(f"{path}: {problem}" if path.name else str(problem)) from None
    if unknown := sorted(values.get("parameters", {}).keys() - profile.parameters.keys()):
        raise BadTarget(
            f"{path}: parameters names {unknown[0]!r}, which the profile"
            f" {profile.name} does not know"
        )
    profile = dataclasses.replace(
        profile, parameters={**profile.parameters, **values.get("parameters", {})}
    )
    try:
        limits = changed(Limits(), values.get("limits", {}))
    except ValueError as problem:
        raise BadTarget(f"{path}: limits: {problem}") from None
    deviations = values.get("deviations")
    clock_rate = values.get("clock_rate", 1)
    if clock_rate < 1:
        raise BadTarget(f"{path}: clock_rate is {clock_rate}; it should be 1 or more")
    not_offered = _not_offered(profile, values)
    judged_on = dict(values.get("judged_on", {}))
    known = ({LOGIN} if "login" in values else set()) | ({SOCKETS} if kind != "virtual" else set())
    known |= {CLIENT_CLOCKS} if clock_rate == 1 else set()
    offered = profile.capabilities | known | set(values.get("add_capabilities", ()))
    if kind != "address":  # the user configures a running broker
        for capability in capabilities.listed().values():
            configured_on = capability.judged_on.get(profile.name)
            if configured_on and capability.name not in offered | not_offered.keys():
                judged_on.setdefault(capability.name, configured_on)
    addresses = values.get("full_addresses")
    if addresses is None:
        config = path.parent / values.get("config", "")  # a missing file is its maker's to refuse
        text = config.read_text("utf-8") if input_file.is_file(config) else ""
        addresses = full_addresses.SHIPPED.named_in(text)
    return Identity(
        name=name,
        kind=kind,
        profile=profile,
        login=values.get("login"),
        passcode=values.get("passcode"),
        default_acceptor=values.get("default_acceptor", "stomp"),
        manual=values.get("manual", ""),
        websockets=frozenset(values.get("websockets", ())),
        addresses=addresses,
        default_amqp_acceptor=values.get("default_amqp_acceptor", "amqp"),
        capabilities=offered - not_offered.keys() - judged_on.keys(),
        not_offered=not_offered,
        judged_on=judged_on,
        scope=frozenset(values.get("scope", ())),
        cases=frozenset(values.get("cases", ())),
        others_judged_on=values.get("others_judged_on", ""),
        deviations=None if deviations is None else path.parent / deviations,
        limits=limits,
        clock_rate=clock_rate,
    )


def _beside(path: Path, name: str) -> Path:
    config = path.parent / name
    if not input_file.is_file(config):
        raise BadTarget(f"{path}: config names {name!r}, but there is no file {config}")
    return config.resolve()


def _address(
    values: dict[str, Any],
    name: str,
    path: Path,
    where: object,
    as_family: Callable[..., Target] | None,
) -> AddressTarget:
    """Return the target; ``as_family`` makes it again, with the family that the broker names."""
    given = values["endpoints"]
    endpoints = {key: _endpoint(key, value, path) for key, value in given.items()}
    if not endpoints:
        raise BadTarget(f'{where}: endpoints is empty; name one, as stomp = "HOST:PORT"')
    for acceptor, protocols in (
        ("default_acceptor", ("stomp", "ws")),
        ("default_amqp_acceptor", ("amqp",)),
    ):
        values.setdefault(acceptor, _first(endpoints, protocols))
    if (default := values["default_acceptor"]) not in endpoints and not any(
        given.protocol == "amqp" for given in endpoints.values()
    ):
        raise BadTarget(
            f"{where}: endpoints has no {default!r}, the acceptor that cases use by default"
        )
    try:
        values["full_addresses"] = full_addresses.read(values.get("addresses", {}))
    except full_addresses.BadAddresses as problem:
        raise BadTarget(f"{where}: {problem}") from None
    values["websockets"] = [key for key, made in endpoints.items() if made.protocol == "ws"]
    of_path = next((made.path for made in endpoints.values() if made.protocol == "ws"), "")
    if of_path:
        values["parameters"] = {**values.get("parameters", {}), "websocket_path": of_path}
    identity = _identity(name, "address", values, path)
    known = _stated_parameters(values, identity.profile, endpoints, where)
    return AddressTarget(
        identity,
        endpoints,
        _beside(path, values["config"]) if "config" in values else None,
        acceptors=known,
        release=values.get("release", ""),
        rabbitmqctl=values.get("rabbitmqctl", ()),
        queue_type=_queue_type(values, path),
        local=values.get("local", False) is True,
        as_family=None if as_family is None else partial(_of_family, as_family),
        is_stranger=_is_stranger(identity.profile),
    )


def _stated_parameters(
    values: Mapping[str, Any],
    profile: profiles.Profile,
    endpoints: Mapping[str, object],
    where: object,
) -> dict[str, Any]:
    """Return the parameters by endpoint: the family configuration's and the file's."""
    known: dict[str, Any] = {}
    if like := values.get("like"):
        config = likeness.config_of(like, shipped_targets.paths())
        known = {} if config is None else dict(parameters.of_named_acceptors(config))
    for acceptor, stated in values.get("acceptors", {}).items():
        if acceptor not in endpoints or not isinstance(stated, dict):
            raise BadTarget(
                f"{where}: acceptors.{acceptor} should be a table of the parameters of an endpoint;"
                f" the endpoints are {', '.join(endpoints)}"
            )
        if unknown := sorted(stated.keys() - _PARAMETERS_OF_ONE - profile.parameters.keys()):
            raise BadTarget(
                f"{where}: acceptors.{acceptor} names {unknown[0]!r}, which the profile"
                f" {profile.name} does not know"
            )
        known[acceptor] = {**known.get(acceptor, {}), **stated}
    return known


def _of_family(make: Callable[..., Target], family: str) -> AddressTarget:
    try:
        target = make(family=family)
    except BadTarget as problem:
        raise SetUpFailed(f"{problem}; its broker reports that it is {family}") from None
    assert isinstance(target, AddressTarget), "it was one of kind address before"
    return target


def _is_stranger(profile: profiles.Profile) -> bool:
    """Return True if the profile has no dialect of a broker and nothing was added to it."""
    stated = profile.parameters.items() - profiles.load(profile.name).parameters.items()
    return profile.name in ("stomp", "any") and {key for key, _ in stated} <= {"websocket_path"}


_PARAMETERS_OF_ONE = {"connection_ttl_ms", "amqp_idle_timeout_ms"}
"""Parameters that a profile omits on purpose, because only an acceptor can have them."""


def _endpoint(name: str, value: object, path: Path) -> endpoint.Endpoint:
    if isinstance(value, endpoint.Endpoint):
        return value
    try:
        return endpoint.read(
            credentials.filled_in(str(value)), path.parent, scheme=endpoint.scheme_of(name)
        )
    except (endpoint.BadEndpoint, credentials.NoCredentials) as problem:
        raise BadTarget(
            f"{path}: endpoints.{name} is {without_passcode(str(value))!r:.200}, which is not a"
            f" valid HOST:PORT or URL: {problem}"
        ) from None


def _first(endpoints: Mapping[str, endpoint.Endpoint], protocols: tuple[str, ...]) -> str:
    """Return the endpoint that cases use by default: the one with the protocol's name, or else the
    first that speaks the protocol."""
    if protocols[0] in endpoints:
        return protocols[0]
    speaking = (name for name, given in endpoints.items() if given.protocol in protocols)
    return next(speaking, protocols[0])


def _proton(identity: Identity, values: Mapping[str, Any], path: Path) -> Target:
    if values["broker"] not in EXAMPLES:
        raise BadTarget(
            f"{path}: broker is {values['broker']!r}; it should be one of {', '.join(EXAMPLES)}"
        )
    return ProtonTarget(identity, values["broker"], values.get("version"))


def _queue_type(values: Mapping[str, Any], path: Path) -> str:
    kind = str(values.get("queue_type", "classic"))
    if kind not in ("classic", "quorum"):
        raise BadTarget(f"{path}: queue_type is {kind!r}; it should be classic or quorum")
    return kind


def _rabbitmq(identity: Identity, values: Mapping[str, Any], path: Path) -> Target:
    kind = _queue_type(values, path)
    nodes = values.get("nodes", 1)
    if nodes not in (1, len(NODES)):
        raise BadTarget(f"{path}: nodes is {nodes}; it should be 1, or {len(NODES)} for a cluster")
    make = RabbitmqTarget if nodes == 1 else RabbitmqClusterTarget
    return make(identity, _beside(path, values["config"]), values.get("version"), kind)


def _in_container(identity: Identity, values: Mapping[str, Any], path: Path) -> Target:
    if values["broker"] not in RECIPES:
        raise BadTarget(
            f"{path}: broker is {values['broker']!r}; it should be one of {', '.join(RECIPES)}"
        )
    return ContainerTarget(
        identity,
        values["broker"],
        _beside(path, values["config"]),
        version=values.get("version"),
        image=values.get("image"),
        queue_type=_queue_type(values, path),
    )


_MAKERS: Mapping[str, Callable[[Identity, Mapping[str, Any], Path], Target]] = {
    "virtual": lambda who, values, path: VirtualTarget(
        who, values["factory"], _beside(path, values["config"])
    ),
    "process": lambda who, values, path: ProcessTarget(
        who, values["command"], _beside(path, values["config"]) if "config" in values else None
    ),
    "artemis": lambda who, values, path: ArtemisTarget(
        who, _beside(path, values["config"]), values.get("version")
    ),
    "activemq": lambda who, values, path: ActivemqTarget(
        who, _beside(path, values["config"]), values.get("version")
    ),
    "rabbitmq": _rabbitmq,
    "proton": _proton,
    "container": _in_container,
    "client": ClientTarget.of,
}
