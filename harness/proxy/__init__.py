"""A proxy between an application and its broker, as a live capture of both sides. ``relay``
forwards bytes without parsing them, and records them in files; ``recording``, a separate process,
converts these files to events like those of a capture, and follows each connection."""
