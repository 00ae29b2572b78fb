"""What every job leaves behind: bundle, report, page, tables, result in the log."""
