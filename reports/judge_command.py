"""``brokerproof judge``: judges recordings of any size, without the broker.

``judge TRACE… [--profile NAME] [--complete] [--master URL] [--json]``. A TRACE is a run folder, a
folder of segments, a segment, or a URI of such a folder that Spark can read; or it is captured
packets: a file (pcap, pcapng, gzip), a folder or a pattern. Exit: 0 no violation · 1 a violation ·
2 inconclusive · 3 no usable Java or Spark · 4 no readable trace, or an unknown profile · 5 internal
error."""

import click

from brokerproof.reports.assembly.refusals import Refusal


@click.command()
@click.argument("traces", metavar="TRACE...", nargs=-1)
@click.option(
    "--profile", metavar="NAME", help="The profile to judge by; default: the run folder's."
)
@click.option(
    "--complete", "whole", is_flag=True, help="The captures contain every connection of one broker."
)
@click.option("--whole", is_flag=True, hidden=True)
@click.option("--master", metavar="URL", help="Spark master; local[*] by default.")
@click.option("--json", "as_json", is_flag=True, help="Print the judgement as JSON.")
def judge(
    traces: tuple[str, ...], profile: str | None, whole: bool, master: str | None, as_json: bool
) -> int:
    """Judge recordings or captured packets of any size: order, loss, duplication, redelivery
    marks, windows, heartbeats and TTL.

    Exit: 0 nothing violated · 1 a violation · 2 inconclusive · 3 no usable Java or Spark · 4 no
    readable trace."""
    if not traces:
        raise Refusal("name at least one trace, such as brokerproof-out/2026-11-21T12-00-00/trace")

    # This imports Arrow and the oracles, which takes longer than all of --help.
    from brokerproof.harness.trace.without_pandas import leave_pandas_out

    leave_pandas_out()
    from brokerproof.reports.assembly import recording_judgement

    return recording_judgement.command(traces, profile, whole=whole, master=master, as_json=as_json)
