"""Owns the report that a person reads in a browser; must not know how the findings came about."""
