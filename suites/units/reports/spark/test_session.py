"""The JVM of a Spark session belongs to the process that started it."""

import os

from pyspark.sql import SparkSession


def test_a_process_that_is_started_during_a_session_does_not_find_its_jvm(
    spark: SparkSession,
) -> None:
    assert spark.range(3).count() == 3
    assert "PYSPARK_GATEWAY_PORT" not in os.environ
    assert "PYSPARK_GATEWAY_SECRET" not in os.environ
