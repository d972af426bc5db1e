"""RabbitMQ as a target: releases, nodes, clusters and management."""
