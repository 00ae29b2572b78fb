"""GapScan: when a scan runs, in which engine, and what becomes of its result. Holds no code itself."""
