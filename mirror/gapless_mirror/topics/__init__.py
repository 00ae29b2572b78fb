"""Which topics a mirror writes: their names, creation and growth, drift, and the prevention of loops."""
