"""How a broker under test is found, started, described and stopped."""
