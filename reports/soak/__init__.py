"""``brokerproof soak``: a load that is judged while it lasts, by Structured Streaming over its
segments."""
