"""From recordings to a report or a judgement: joins the other packages."""
