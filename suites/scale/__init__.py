"""Reports and judges at sizes, or on machines, that ordinary tests have no time for. They only run
when a file is named."""
