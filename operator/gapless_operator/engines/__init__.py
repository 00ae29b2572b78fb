"""Where Spark runs for us: one module for each kind of object that can run it. Holds no code itself."""
