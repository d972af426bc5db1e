"""A proxy between an application and its broker: a live capture of both sides.

``relay`` forwards bytes without parsing them and records them in files; ``recording``, a separate
process, converts the files to events, as for a capture, and follows each connection."""
