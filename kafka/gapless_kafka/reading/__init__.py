"""Cuts of topics: how they are determined, distributed and read."""
