"""Small STOMP brokers, each with one planted fault, and the first line that a run should print.

``broker.py`` is an honest broker; ``faults.py`` contains its faulty variants.
``test_mini_brokers.py`` judges all of them. ``python -m brokerproof.suites.mini_brokers NAME``
starts one.
"""
