"""What is asked of brokers and what is known about them: requirements, cases that cite them,
profiles, known deviations."""
