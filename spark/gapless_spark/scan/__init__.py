"""``gapless scan``: what the gap detector knows to be missing."""
