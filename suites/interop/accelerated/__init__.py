"""Shows that each way in which Java and Erlang wait keeps an accelerated clock."""
