"""Missing events as an HTML page."""
