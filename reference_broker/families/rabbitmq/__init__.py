"""The RabbitMQ family: alarms, resources, credit flow, limited queues, exchanges, topology."""
