"""The Spark engine of ``gapless mirror``: Spark's tasks hold the lanes, for some seconds at a time."""
