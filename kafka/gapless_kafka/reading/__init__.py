"""How a cut of topics is taken, and read."""
