"""``brokerproof soak``: a load that is judged while it runs, by Structured Streaming over its
segments."""
