"""The findings: pure functions of the observations."""
