"""The report's tables, each a small pure function: of Arrow tables, which this process holds, for
results; of Spark's DataFrames for what grows with the recording."""
