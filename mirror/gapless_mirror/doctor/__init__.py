"""Checks of one or two clusters that change nothing, and their findings."""
