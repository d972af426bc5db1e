"""A proxy between an application and its broker: a live capture of both halves.

``relay`` passes bytes on as they come, parses none of them, and notes them on a tape; ``recording``
is another process, which makes the events of a capture of it and follows each connection.
"""
