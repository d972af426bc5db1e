"""Reports and judges at sizes, or on machines, for which ordinary tests have no time. Only run when
a file is named."""
