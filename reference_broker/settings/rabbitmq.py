"""The settings of a RabbitMQ broker apart from its listeners."""

from dataclasses import dataclass

from brokerproof.reference_broker.settings.parameters import Options


@dataclass(frozen=True, slots=True)
class RabbitMq(Options):
    """The defaults of RabbitMQ 3.10 and 4."""

    node: str = "rabbit@localhost"
    """The node's name in its cluster."""
    queue_rate: int = 0
    """Published messages per second that a declared queue accepts; 0 means no limit. No file sets
    this rate: it models a machine's speed, to which RabbitMQ slows publishers
    (RABBITMQ-FLOW-conn-2)."""
    memory_high_watermark: float | int = 0.4
    """``vm_memory_high_watermark``: a fraction of the usable memory (float), or bytes (int)."""
    memory_paging_ratio: float = 0.5
    """``vm_memory_high_watermark_paging_ratio``: the fraction of the watermark at which queues
    begin to page messages out."""
    disk_free_limit: float | int = 50_000_000
    """``disk_free_limit``: bytes (int), or a multiple of the memory (float)."""
