"""Copying topics of one cluster to another, live; must not know what drives it."""
