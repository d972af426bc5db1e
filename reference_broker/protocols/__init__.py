"""The protocols: bytes in, kernel calls, bytes out."""
