"""``gapless compact``: few large segments in the place of many small ones."""
