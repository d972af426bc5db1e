"""Starts broker processes quickly: a process that has imported everything and forks.

Each line on standard input is a JSON list, the options of ``brokerproof broker``. The answer on
standard output is a line with the process id of a new process that runs the command with these
options, and then what that process prints. The process before it is waited for first: whoever wants
another one has killed it.
"""

from __future__ import annotations

import json
import os
import sys

# The command imports these when it needs them; here they are imported once for all its children.
import brokerproof.reference_broker.assembly
import brokerproof.reference_broker.persistence.store_from_settings
import brokerproof.reference_broker.runtime.asyncio_server
import brokerproof.reference_broker.runtime.resource_sampler  # noqa: F401
from brokerproof.reference_broker.config.activemq import activemq_xml  # noqa: F401
from brokerproof.reference_broker.config.artemis import broker_xml  # noqa: F401
from brokerproof.reference_broker.runtime.command import broker


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
