"""Two kinds of time with the same verbs: a virtual world that jumps and the real one that waits."""
