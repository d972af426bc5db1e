"""A proxy between an application and its broker that captures both sides live. ``relay`` forwards
bytes without parsing them, and records them in files; ``recording``, a separate process, converts
these files to events like those of a capture, and follows each connection."""
