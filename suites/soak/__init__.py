"""Long runs of the real broker process. Each is a separate script and runs only when named."""
