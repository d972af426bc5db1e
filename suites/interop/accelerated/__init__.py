"""Shows that every way of waiting in Java and Erlang follows an accelerated clock."""
