"""The output of jobs: bundle, report, page, tables, result in the log."""
