"""Wire mutants: faults made on the wire of a broker that is left alone, so that a real one becomes
a faulty one."""
