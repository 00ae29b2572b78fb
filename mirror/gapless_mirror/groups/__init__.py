"""Positions of consumer groups, translated from the source to the target of a mirror."""
