"""``gapless audit``: find missing events in the received ones."""
