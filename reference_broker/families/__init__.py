"""The families of brokers: what Artemis, RabbitMQ and ActiveMQ do in their own way."""
