"""The report that a person reads in a browser, and the history of runs."""
