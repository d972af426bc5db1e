"""ActiveMQ Classic as a target: installation, configuration, start and stop."""
