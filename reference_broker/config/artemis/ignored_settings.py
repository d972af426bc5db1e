"""Settings of a broker.xml that are known but not used."""

from pathlib import Path

from brokerproof.reference_broker.config.ignored_settings import tables

_TABLES = tables(Path(__file__).with_suffix(".toml"))
CORE, ADDRESS_SETTING, QUEUE = _TABLES["core"], _TABLES["address-setting"], _TABLES["queue"]
ACCEPTOR, TLS = _TABLES["acceptor"], _TABLES["tls"]
