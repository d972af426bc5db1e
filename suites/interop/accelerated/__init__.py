"""Checks that every way to wait in Java and Erlang follows an accelerated clock."""
