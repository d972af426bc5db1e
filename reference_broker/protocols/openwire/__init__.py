"""OpenWire, the protocol of ActiveMQ's own clients, as far as the flow control of producers and
consumers needs it.

The implementation follows the source of release 6.3.1; ``docs/explanation/openwire.md`` lists what
is supported.
"""
