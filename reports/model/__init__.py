"""The content of a report, without its form: tables, causes, charts."""
