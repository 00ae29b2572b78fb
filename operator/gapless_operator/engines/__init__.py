"""The engines that run Spark: one module for each kind of object, and what all attempts have in common."""
