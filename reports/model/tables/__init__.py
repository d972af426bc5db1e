"""The report's tables. Each table is a small pure function. Functions for results take Arrow tables
in this process; functions for data that grows with the recording take Spark's DataFrames."""
