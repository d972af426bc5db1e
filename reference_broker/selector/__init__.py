"""Selectors: conditions over a message's headers, in the broker's core filter syntax
(ARTEMIS-STOMP-selector-1)."""
