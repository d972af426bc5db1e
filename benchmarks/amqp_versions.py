"""Messages a second over AMQP 1.0 and processor time per message of two versions of the reference
broker: ``python benchmarks/amqp_versions.py OLD NEW [OPTIONS]``, each a checkout.

Peers, scenarios and options are those of ``amqp_throughput.py``; runs are interleaved, and ratios
are those of NEW to OLD.
"""

from __future__ import annotations

import functools
import json
import sys
from pathlib import Path

from amqp_brokers import Broker
from amqp_peers import work
from amqp_throughput import SCENARIOS, job_for
from comparison import START_S, Comparison, Place, last_line, run, started_python

START = """
import runpy, sys
root, module = sys.argv[1:3]
sys.path.insert(0, root)
sys.argv[:] = [module, "--stomp", "0", "--amqp", "0"]
runpy.run_module(module, run_name="__main__")
"""


def start(name: str, checkout: Path, place: Place) -> list[Broker]:
    """The broker of ``checkout``, without a configuration file."""
    module = "brokerproof.reference_broker"
    if not (checkout / "brokerproof").is_dir():  # before there was one namespace
        module = "reference_broker"
    process, console = started_python(place, name, "-c", START, str(checkout), module)
    process.wait_until_ready(
        lambda: console.read_text("utf-8").endswith("}\n"),
        within_s=START_S,
        reason=lambda: last_line(console),
    )
    ready = json.loads(console.read_text("utf-8").splitlines()[0])
    return [Broker(name, ready["version"], ready["pid"], ready["amqp"], capability="queue")]


def main() -> int:
    """See ``comparison.run``."""
    if len(sys.argv) < 3 or not all(Path(path).is_dir() for path in sys.argv[1:3]):
        sys.exit("two checkouts are needed: amqp_versions.py OLD NEW")
    versions = {name: Path(sys.argv.pop(1)).resolve() for name in ("old", "new")}
    brokers = {name: functools.partial(start, name, path) for name, path in versions.items()}
    title = "AMQP 1.0 over two versions of the reference broker, in one run."
    return run(Comparison(title, "new", SCENARIOS, brokers, job_for, work))


if __name__ == "__main__":
    sys.exit(main())
