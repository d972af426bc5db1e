"""The release that the broker names to its peers: the distribution's, which stands in
pyproject.toml."""

from importlib.metadata import version

RELEASE = version("brokerproof")
