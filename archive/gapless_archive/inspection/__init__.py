"""Summaries and verification of an archive."""
