"""The release that the broker announces to peers: that of the distribution, from pyproject.toml."""

from importlib.metadata import version

RELEASE = version("brokerproof")
