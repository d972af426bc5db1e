"""The reference broker as a process with one seeded fault, for real time::

python -m brokerproof.suites.mutation.real_broker NAME [options of brokerproof broker]
"""

import sys

from brokerproof.reference_broker.__main__ import main
from brokerproof.suites.mutation import all_mutants
from brokerproof.suites.mutation.mutant import Reached

if __name__ == "__main__":
    with all_mutants.named(sys.argv.pop(1)).patch(Reached()):
        sys.exit(main())
