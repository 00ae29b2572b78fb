"""The report that a person reads in a browser."""
