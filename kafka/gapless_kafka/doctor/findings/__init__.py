"""The findings: pure functions of what was observed."""
