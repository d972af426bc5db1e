"""From recordings to a report or a judgement: what puts the rooms together."""
