"""Apache Artemis as a target: installing, configuring, starting and stopping it."""
