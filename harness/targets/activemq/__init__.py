"""ActiveMQ Classic as a target: installing, configuring, starting and stopping it."""
