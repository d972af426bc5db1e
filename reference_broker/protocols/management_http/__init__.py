"""RabbitMQ's management API over HTTP, as far as testers of flow control read it.

It answers ``GET`` of overview, nodes, connections, queues, whoami, cluster-name and the health
checks for alarms, with RabbitMQ's names and shapes; the differences from releases 3.10 and 4.0 are
listed in ``docs/explanation/rabbitmq.md``.
"""
