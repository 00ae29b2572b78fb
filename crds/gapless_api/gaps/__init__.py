"""The records of the gap detector's topic: keys, contents, and what its cleanup.policy means."""
