"""Wire mutants: they rewrite the traffic of an unchanged (even a real) broker so that it appears
faulty."""
