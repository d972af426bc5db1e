"""The report: a PySpark pipeline over recorded runs. No other package may import pyspark."""
