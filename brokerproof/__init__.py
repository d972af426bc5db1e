"""Conformance and test harness for message brokers.

In an installed distribution five folders are beside this file; in a checkout they are links to the
folders of the repository. A checkout without symbolic links and an unpacked sdist have neither, so
the repository's folders are searched.
"""

from pathlib import Path

if not (Path(__file__).parent / "harness").is_dir():
    __path__.append(str(Path(__file__).parent.parent))
