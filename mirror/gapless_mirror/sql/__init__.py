"""The SQL of a mirror: what a worker and the process that evaluates it send each other."""
