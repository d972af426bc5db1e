"""The content of a report, independent of its form: tables, causes, charts."""
