"""``gapless compact``: joins many small segments into few large ones."""
