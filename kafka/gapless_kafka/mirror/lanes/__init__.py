"""Lanes: which source partitions are copied by one owner at a time, how they are copied, and how far they are."""
