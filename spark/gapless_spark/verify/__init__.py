"""``gapless verify``: check which gaps of an older bundle have closed."""
