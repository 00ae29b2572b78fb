"""What every part stands on: errors and exit codes, files, settings, logs."""
