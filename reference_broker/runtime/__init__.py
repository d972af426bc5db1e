"""Sockets, clocks and processes: the only place of the broker that knows them."""
