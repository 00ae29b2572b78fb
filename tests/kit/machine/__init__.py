"""Processes, temporary folders, caches and clocks on this machine."""
