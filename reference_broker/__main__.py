"""``python -m reference_broker``: the ``brokerproof broker`` command on its own."""

import sys

import click

from brokerproof.reference_broker.runtime.command import USAGE, broker


def main() -> int:
    """Run the command; a usage error exits with 4."""
    try:
        broker.main(prog_name="python -m reference_broker", standalone_mode=False)
    except click.UsageError as problem:
        problem.show()
        return USAGE
    except click.ClickException as problem:
        problem.show()
        return problem.exit_code
    except click.Abort:
        return 0
    return 0


if __name__ == "__main__":
    sys.exit(main())
