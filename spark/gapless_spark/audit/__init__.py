"""``gapless audit``: what the received events show to be missing."""
