"""Conformance and test harness for message brokers.

In a checkout the five folders beside this file are links to the folders of the repository; in an
installed distribution they are folders of this package.
"""
