"""Owns the search for the rate that a link carries: numbered probes out, and what became of them; knows no Kafka."""
