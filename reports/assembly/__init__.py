"""From recordings to a report or a judgement: connects the other packages."""
