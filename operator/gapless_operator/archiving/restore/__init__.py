"""The reconciler of Restore."""
