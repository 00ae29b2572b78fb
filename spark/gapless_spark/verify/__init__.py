"""``gapless verify``: what has become of an older bundle."""
