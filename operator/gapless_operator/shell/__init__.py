"""Everything of the operator that touches the cluster, the clock or a thread. Holds no code itself."""
