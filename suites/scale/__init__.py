"""Reports and judges at sizes, or on machines, for which ordinary tests have no time. These tests
run only when a file is named."""
