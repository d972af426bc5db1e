"""The report's tables, each a small pure function DataFrame -> DataFrame."""
