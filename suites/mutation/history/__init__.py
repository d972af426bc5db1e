"""Historical bugs of brokers, on releases with and without them."""
