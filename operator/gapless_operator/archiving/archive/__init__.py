"""The reconciler of Archive."""
