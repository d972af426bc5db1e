"""Spark for the report: a session, schemas, paths."""
