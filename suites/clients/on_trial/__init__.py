"""Client libraries under test: the harness is the server, and commands the library through its
driver."""
