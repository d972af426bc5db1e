"""Proton's example brokers as targets."""
