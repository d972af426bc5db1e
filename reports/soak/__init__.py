"""``brokerproof soak``: a load that is judged while it runs, with Structured Streaming over its
segments."""
