"""RabbitMQ's management API over HTTP, as far as a tester of flow control reads it.

``GET`` of overview, nodes, connections, queues, whoami, cluster-name and the health checks of
alarms, with RabbitMQ's names and shapes; what else there is in releases 3.10 and 4.0, and what is
said otherwise, is written down in ``docs/explanation/rabbitmq.md``.
"""
