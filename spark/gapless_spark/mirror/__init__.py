"""The Spark engine of ``gapless mirror``: Spark tasks copy the lanes, for some seconds at a time."""
