"""Client libraries on trial: the harness is the server, and commands the library by its driver."""
