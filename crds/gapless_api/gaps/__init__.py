"""Records of the gap detector's topic: keys, values, and the effect of its cleanup.policy."""
