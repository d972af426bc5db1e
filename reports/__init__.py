"""The report: a PySpark pipeline over recorded runs. The only package that may import pyspark."""
