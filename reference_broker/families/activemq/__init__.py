"""The ActiveMQ family: usage, cursors, producer flow control, inactivity."""
