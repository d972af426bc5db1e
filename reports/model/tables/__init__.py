"""The report's tables. Each is a small pure function: for results, of Arrow tables in this process;
for data that grows with the recording, of Spark's DataFrames."""
