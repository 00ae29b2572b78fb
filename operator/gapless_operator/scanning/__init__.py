"""GapScan: when a scan runs, in which engine, and what follows from its result."""
