"""Starts broker processes quickly: this process has imported everything, and forks them.

Each line on standard input is a JSON list with the options of ``brokerproof broker``. The answer on
standard output is a line with the id of a new process that runs the command with these options, and
then the output of that process. The previous process is awaited first, because callers kill it
before they request a new one.
"""

import json
import os
import sys

# The command imports these on demand; here they are imported once for all children.
import brokerproof.reference_broker.assembly
import brokerproof.reference_broker.persistence.store_from_settings
import brokerproof.reference_broker.runtime.asyncio_server
import brokerproof.reference_broker.runtime.resource_sampler  # noqa: F401
from brokerproof.reference_broker.config.activemq import activemq_xml  # noqa: F401
from brokerproof.reference_broker.config.artemis import broker_xml  # noqa: F401
from brokerproof.reference_broker.runtime.command import broker


def main() -> None:
    """Serve until standard input ends."""
    child = 0
    for line in sys.stdin:
        if child:
            os.waitpid(child, 0)
        child = os.fork()
        if not child:
            os.close(0)
            # The child writes this, so none of its own output can precede it.
            sys.stdout.write(f"{os.getpid()}\n")
            sys.stdout.flush()
            broker.main(json.loads(line))  # does not return


if __name__ == "__main__":
    main()
