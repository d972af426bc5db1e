"""The families of brokers: behaviour specific to Artemis, RabbitMQ and ActiveMQ."""
