"""Spark as the report needs it: a session, schemas, paths."""
