"""Exports for other programs: JUnit XML, CTRF JSON, a Markdown summary, a badge."""
