"""Stores of the decision service: SQLite for one process, PostgreSQL for several."""
