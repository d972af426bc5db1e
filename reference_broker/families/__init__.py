"""The broker families: behaviour that is specific to Artemis, RabbitMQ and ActiveMQ."""
