"""The report's tables, each a small pure function: on Arrow tables in this process for results, on
Spark's DataFrames for data that grows with the recording."""
