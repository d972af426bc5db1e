"""Client libraries under test: the harness is the server and drives the library."""
