"""Observation of clusters, brokers, groups and files, without changes and without findings."""
