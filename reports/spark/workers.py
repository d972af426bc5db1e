"""The process from which Spark forks the workers that judge a small recording, without pandas."""

from __future__ import annotations

from pyspark.daemon import manager

from brokerproof.reports.spark.without_pandas import leave_pandas_out

if __name__ == "__main__":
    leave_pandas_out()
    manager()
