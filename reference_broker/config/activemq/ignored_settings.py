"""Settings of an activemq.xml that are known but not used."""

from pathlib import Path

from brokerproof.reference_broker.config.ignored_settings import tables

_TABLES = tables(Path(__file__).with_suffix(".toml"))
BROKER, BROKER_TREES = _TABLES["broker"], _TABLES["broker-trees"]
PLUGINS, USAGE_TREES = _TABLES["plugins"], _TABLES["usage-trees"]
POLICY, POLICY_TREES = _TABLES["policy"], _TABLES["policy-trees"]
CONNECTOR, OPTION = _TABLES["connector"], _TABLES["option"]
