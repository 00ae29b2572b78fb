"""``gapless scan``: find missing events in the records of the gap detector."""
