"""Lanes: disjoint sets of source partitions, each copied by one owner at a time, with positions in the target."""
