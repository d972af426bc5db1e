"""Starts broker processes quickly: a process that has imported everything and forks.

Each line on standard input is a JSON list, the options of ``brokerproof broker``. The answer on standard output is a line with
the process id of a new process that runs the command with these options, and then what that process prints. The process
before it is waited for first: whoever wants another one has killed it.
"""

from __future__ import annotations

import json
import os
import sys

import reference_broker.core.broker
import reference_broker.serve_asyncio  # noqa: F401  the command imports these when it needs them; here they are there
from reference_broker.command import broker
from reference_broker.config import activemq_xml, broker_xml  # noqa: F401


def main() -> None:
    """Serves until standard input ends."""
    child = 0
    for line in sys.stdin:
        if child:
            os.waitpid(child, 0)
        child = os.fork()
        if not child:
            os.close(0)
            broker.main(json.loads(line))  # does not return
        sys.stdout.write(f"{child}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
