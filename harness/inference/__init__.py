"""What a broker's parameters are, found out from how it behaves: probes, intervals, and the profile
that comes of them."""
