"""The release that the broker announces to its peers: the distribution's, from pyproject.toml."""

from importlib.metadata import version

RELEASE = version("brokerproof")
