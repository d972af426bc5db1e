"""What a report states, without its form: tables, causes, charts."""
