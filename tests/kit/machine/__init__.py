"""Processes, temporary folders, caches and the clock of this machine."""
