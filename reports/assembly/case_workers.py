"""The process from which Spark forks the workers of a report.

It imports what the workers' tasks need, once for all workers, because these imports take a second
of processor time."""

import gc

from pyspark.daemon import manager

from brokerproof.reports.spark.without_pandas import leave_pandas_out

leave_pandas_out()  # before the import below, which would import pandas

from brokerproof.reports.assembly import case_data  # noqa: E402
from brokerproof.reports.assembly.tasks import COLLECT_AT  # noqa: E402

if __name__ == "__main__":
    assert case_data
    gc.freeze()
    gc.set_threshold(COLLECT_AT)
    manager()
