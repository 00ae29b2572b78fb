"""The reconcilers of Archive and Restore."""
