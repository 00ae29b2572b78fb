"""Where a scan runs: one module for each kind of object that can run Spark for us. Holds no code itself."""
