"""The life of work that runs in attempts, the same for all kinds; a kind describes its work and keeps its own rules."""
