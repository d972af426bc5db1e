"""Reports and judges at a size, or on machines, that ordinary tests have no time for. Only run when
a file is named."""
