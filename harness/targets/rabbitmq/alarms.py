"""Arguments of rabbitmqctl that raise alarms, end them, and set their limits."""

from collections.abc import Iterator

from brokerproof.harness.model.broker_io import LimitsSet

RAISE_ALARM = {
    "memory": ("set_vm_memory_high_watermark", "0"),
    "disk": ("set_disk_free_limit", "9000000000000000"),
}
"""Arguments of rabbitmqctl that cause a shortage of a resource on a node."""
CLEAR_ALARM = {
    "memory": ("set_vm_memory_high_watermark", "0.9"),
    "disk": ("set_disk_free_limit", "1000000"),
}


def limit_commands(limits: LimitsSet) -> Iterator[tuple[str, ...]]:
    if limits.paging is not None:
        # no command sets this; RabbitMQ looks it up at each use
        setting = f"rabbit, vm_memory_high_watermark_paging_ratio, {_written(limits.paging)}"
        yield "eval", f"application:set_env({setting})."
    if limits.memory is not None:
        kind = () if isinstance(limits.memory, float) else ("absolute",)
        yield "set_vm_memory_high_watermark", *kind, _written(limits.memory)
    if limits.disk is not None:
        kind = ("mem_relative",) if isinstance(limits.disk, float) else ()
        yield "set_disk_free_limit", *kind, _written(limits.disk)


def _written(limit: float | int) -> str:
    """Return a number as rabbitmqctl reads it, without an exponent."""
    return f"{limit:.9f}" if isinstance(limit, float) else f"{limit}"
