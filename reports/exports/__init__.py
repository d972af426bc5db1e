"""What other programs read: JUnit XML, CTRF JSON, a Markdown summary, a badge."""
