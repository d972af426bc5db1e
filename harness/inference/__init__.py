"""A broker's parameters, inferred from its behaviour: probes, intervals, and the profile made of
them."""
