"""One module per table, each a small pure function DataFrame -> DataFrame."""
