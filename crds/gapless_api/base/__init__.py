"""Errors and exit codes, files, settings, logs: what every package uses."""
