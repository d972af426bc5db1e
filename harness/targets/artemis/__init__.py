"""Apache Artemis as a target: installation, configuration, start and stop."""
