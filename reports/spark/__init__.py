"""What the report needs from Spark: a session, schemas, paths."""
