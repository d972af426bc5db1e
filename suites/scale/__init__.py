"""Reports and judges at sizes, or on machines, that are too slow for ordinary tests. These tests
run only when a file is named."""
