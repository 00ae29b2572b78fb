"""``gapless inventory``: what exists upstream, to a file or over the link."""
