"""The settings of the jobs' commands; ``--help`` imports this package, so it must not import anything slow."""
