"""``gapless link``: preflight checks and the search for the rate that a link carries."""
